"""What --json prints: one JSON value on standard output, however the command ends."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from typing import Final

from unspool.light_dataclass import dataclass

_REASONS: Final = {"best": "ended"}  # under what name a command's object says why it ended
_REASON: Final = "finish_reason"
_n_begun = 0  # values of this process


def write_json(value: object, *, indent: int | None = None) -> None:
    """Print one JSON value. Where standard output is not UTF-8, all but ASCII is written as \\u escapes:
    those that the stream would make of its own accord are none of JSON's."""
    global _n_begun
    is_utf8 = (sys.stdout.encoding or "").lower().replace("_", "-") in ("utf-8", "utf8")
    text = json.dumps(value, ensure_ascii=not is_utf8, indent=indent)
    _n_begun += 1
    print(text)


@dataclass(frozen=True, slots=True)
class Ending:
    """What is printed for a command that ends before it has printed its own value."""

    name: str  # under which the value says why
    n_before: int  # values begun when the command was

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Ending | None:
        """None where a command line asks for no JSON. A value spelled --json is taken for the option."""
        given = list(itertools.takewhile(lambda each: each != "--", arguments))
        return cls(_REASONS.get(given[0], _REASON), _n_begun) if "--json" in given else None

    def interrupted(self) -> None:
        self._write({self.name: "cancelled"})

    def failed(self, code: str, message: str) -> None:
        self._write({self.name: "error", "error": {"code": code, "message": message}})

    def _write(self, value: object) -> None:
        """Nothing where a value was printed already, or where standard output takes none."""
        if self.n_before != _n_begun:
            return
        try:
            write_json(value)
            sys.stdout.flush()
        except OSError:
            pass  # whoever finds nothing there has the exit code
