"""Text on its way in and out: what was typed must be UTF-8, what is shown must not drive the terminal."""

from __future__ import annotations

import os
import sys

from unspool.errors import BadRequest

# A model may write any character. Escape and its kin would move the cursor, change the title or answer
# queries; on a terminal they are shown as what they are. Newline, tab and return do no harm.
_VISIBLE = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t\r"}
_VISIBLE |= {0x7F: "\u2421"} | {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}


def checked(text: str, what: str) -> str:
    """The text as UTF-8. Bytes that the locale cannot read arrive as lone surrogates: a locale without
    UTF-8 does that to good text too, which is read again here; what is no UTF-8 raises BadRequest."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        try:
            return os.fsencode(text).decode("utf-8")
        except UnicodeError:
            raise BadRequest(f"{what} is not valid UTF-8; convert it first", code="bad_text") from None
    return text


def number_or_text(text: str) -> int | float | str:
    """What was typed as a number where it is one; other text comes back for its reader to refuse."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def counted(n: int, what: str) -> str:
    """So many of something that takes an s: 1 token, 2 tokens."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def decoded(data: bytes) -> str:
    """Standard input as text. Raises BadRequest."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(
            f"standard input is not UTF-8 (byte {error.start}); convert it first", code="bad_text"
        ) from None


def write(text: str) -> None:
    """Write to standard output at once: unchanged to a pipe or file, harmless to a terminal."""
    sys.stdout.write(text.translate(_VISIBLE) if sys.stdout.isatty() else text)
    sys.stdout.flush()
