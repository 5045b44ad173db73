"""Answers in a file, a line each, so that an evaluation that was interrupted goes on where it was.

    line 1      {"unspool_eval": 2, "settings": {...}}     what the answers were made with
    lines 2..   {"question": ..., "series": ..., "branch": ..., "text": ..., ..., "marks": {...}}

Lines are only ever added. What stands behind the last line end was torn by whatever ended the run, and is
taken away when the file is opened; a damaged line before it is refused. Answers are a function of the
settings, the problem and the branch, so a file that grew in ten runs says what it would after one.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, get_args

from unspool.errors import BadRequest, brief
from unspool.evals.question import Answer, Series
from unspool.light_dataclass import dataclass
from unspool.search.named import search_from, written_out
from unspool.types import FinishReason

if TYPE_CHECKING:
    from typing_extensions import Self

_FORMAT: Final = 2  # goes up when the lines of answers change
_WHY: Final[Mapping[str, str]] = {
    "rounding": " (another instruction set or processor, another runner or library rounds otherwise)"
}
_TORN_HEAD: Final = f'{{"unspool_eval": {_FORMAT}, "settings": '.encode()
_USUAL: Final = object()  # the value of a parameter that is not named
_NAMES: Final = frozenset(field.name for field in fields(Answer))
_KINDS: Final[Mapping[str, type]] = {
    "question": str, "series": str, "branch": int, "text": str, "finish_reason": str, "n_tokens": int,
    "marks": dict,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Key:
    """Which answer it is."""

    question: str
    series: Series
    branch: int

    @classmethod
    def of(cls, answer: Answer) -> Self:
        return cls(answer.question, answer.series, answer.branch)


class AnswerFile:
    """The answers there are, and a place for more. Use it as a context manager."""

    def __init__(self, path: Path, settings: Mapping[str, Any], *, fresh: bool = False) -> None:
        """Open or begin a file. Raises BadRequest for one of other settings, or one that is none of ours.

        `fresh` forgets what is there; only a file that an evaluation wrote is ever replaced.
        """
        self.path = path
        self._settings = json.loads(json.dumps(settings))  # as they read back: no tuples
        self._answers: dict[Key, Answer] = {}
        try:
            self._file: BinaryIO = open(path, "a+b", buffering=0)  # noqa: SIM115 - until close
        except OSError as error:
            raise BadRequest(
                f"{path}: {error.strerror}; give --out another file", code="eval_file"
            ) from error
        try:
            if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                raise BadRequest(f"{path} keeps nothing; give --out another file", code="eval_file")
            self._read(fresh)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._answers)

    def __contains__(self, key: Key) -> bool:
        return key in self._answers

    def __getitem__(self, key: Key) -> Answer:
        return self._answers[key]

    def add(self, answers: Iterable[Answer]) -> None:
        """Keep answers: they are in the file, in one write, when this returns."""
        new = {Key.of(answer): answer for answer in answers}
        self._write([asdict(answer) for key, answer in new.items() if key not in self._answers])
        self._answers |= {key: answer for key, answer in new.items() if key not in self._answers}

    def _write(self, values: Iterable[Mapping[str, Any]]) -> None:
        data = "".join(json.dumps(value) + "\n" for value in values).encode()
        while data:
            data = data[self._file.write(data) :]

    def _read(self, fresh: bool) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if not whole:
            if data and not _TORN_HEAD.startswith(data[: len(_TORN_HEAD)]):
                raise self._damaged(1, "is not that of an evaluation")
            self._begin()
            return
        lines = whole.splitlines()
        head = self._object(1, lines[0])
        version = head.get("unspool_eval")
        if type(version) is not int or version < 1 or not isinstance(head.get("settings"), dict):
            raise self._damaged(1, "is not that of an evaluation")
        if fresh:
            self._begin()
            return
        if version != _FORMAT:
            which = "an earlier" if version < _FORMAT else "a later"
            raise BadRequest(
                f"{self.path} was written by {which} version (form {version}, not {_FORMAT}); give "
                "--out another file, or --fresh to forget the answers in it",
                code="eval_mismatch",
            )
        self._check(head["settings"])
        for number, line in enumerate(lines[1:], start=2):
            answer = self._answer(number, line)
            self._answers.setdefault(Key.of(answer), answer)
        if len(whole) < len(data):
            self._file.truncate(len(whole))
        self._file.seek(0, os.SEEK_END)

    def _begin(self) -> None:
        self._file.truncate(0)
        self._write([{"unspool_eval": _FORMAT, "settings": self._settings}])

    def _check(self, found: Mapping[str, Any]) -> None:
        for name in sorted({*found, *self._settings}):
            if found.get(name) != self._settings.get(name):
                where, was, asked = _differing(name, found.get(name), self._settings.get(name))
                raise BadRequest(
                    f"{self.path} has answers with {where} = {was}, and {asked} is asked for"
                    f"{_WHY.get(name, '')}; give --out another file, or --fresh to forget the answers in it",
                    code="eval_mismatch",
                )

    def _answer(self, number: int, line: bytes) -> Answer:
        value = self._object(number, line)
        is_answer = value.keys() == _NAMES and all(type(value[name]) is kind for name, kind in _KINDS.items())
        if (
            not is_answer
            or value["series"] not in get_args(Series)
            or value["finish_reason"] not in get_args(FinishReason)
        ):
            raise self._damaged(number, "is no answer")
        return Answer(**value)

    def _object(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise self._damaged(number, "is no JSON") from None
        if not isinstance(value, dict):
            raise self._damaged(number, "is no object")
        return value

    def _damaged(self, number: int, problem: str) -> BadRequest:
        return BadRequest(
            f"{self.path}: line {number} {problem}; give --out another file, or take the line out",
            code="eval_file",
        )


def _differing(name: str, was: Any, asked: Any) -> tuple[str, str, str]:
    """The first setting that differs, by its own name, and both of its values as a message has them. Of the
    answers of a search that is the search as a whole, before parameters."""
    if isinstance(was, Mapping) and isinstance(asked, Mapping):
        for key in sorted({*was, *asked}, key=lambda key: (key != "search", key)):
            before, now = was.get(key, _USUAL), asked.get(key, _USUAL)
            if before != now and key == "search":
                return name, _searched(before), _searched(now)
            if before != now:
                return _differing(f"{name}.{key}", before, now)
    return name, _shown(was), _shown(asked)


def _shown(value: Any) -> str:
    """A value on one line; of how answers of a search are decoded, the search."""
    if isinstance(value, Mapping) and "search" in value:
        return _searched(value["search"])
    return "its default" if value is _USUAL else brief(value)


def _searched(told: Any) -> str:
    """A search as it is typed, from what `search.named` tells of it."""
    try:
        return written_out(search_from(told))
    except BadRequest:  # of a file that somebody changed
        return "its default" if told is _USUAL else brief(told)
