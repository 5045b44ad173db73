"""The program in an answer."""

from __future__ import annotations

import re
from typing import Final

_FENCED: Final = re.compile(
    r"^[ \t]*```[ \t]*(?P<language>[\w+.-]*)[^\n]*\n(?P<code>.*?)(?:^[ \t]*```[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PYTHON: Final = frozenset({"python", "python3", "py", "py3"})


def code_of(text: str) -> str:
    """The first fenced block that is marked as Python, else the first without a mark, else the whole text.

    A block without an end reaches to the end of the text: the answer was cut there.
    """
    blocks = [(match["language"].lower(), match["code"]) for match in _FENCED.finditer(text)]
    for wanted in (_PYTHON, frozenset({""})):
        for language, code in blocks:
            if language in wanted:
                return code
    return text
