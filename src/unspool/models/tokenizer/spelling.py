"""How vocabularies spell bytes: the two conventions, and the step from a piece of vocabulary to bytes.

Byte-level BPE (Radford et al. 2019) writes each byte as one printable character: the printable ones of
Latin-1 stand for themselves, the other 68 are moved up, in order, to U+0100 and after. Space becomes "Ġ".
SentencePiece (Kudo and Richardson 2018) writes a space as "▁" and a byte that no piece covers as "<0xE4>".
"""

from __future__ import annotations

import enum
import re

import numpy as np

SPACE_MARK = "\u2581"  # "▁"
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Spelling(enum.Enum):
    BYTE_LEVEL = "byte-level"
    SPACE_MARK = "space mark with byte fallback"


def _byte_characters() -> tuple[str, ...]:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = iter(range(0x100, 0x200))
    return tuple(chr(byte) if byte in printable else chr(next(moved)) for byte in range(256))


CHARACTER_OF_BYTE: tuple[str, ...] = _byte_characters()  # 256 characters, byte b at index b
_BYTE_OF_CHARACTER = {character: byte for byte, character in enumerate(CHARACTER_OF_BYTE)}

# The byte that each code point spells, -1 for one outside the alphabet; the last stands for all beyond it.
BYTES_OF_CHARACTERS = np.full(max(map(ord, CHARACTER_OF_BYTE)) + 2, -1, dtype=np.int16)
BYTES_OF_CHARACTERS[list(map(ord, CHARACTER_OF_BYTE))] = range(256)


def byte_level_piece(data: bytes) -> str:
    """The characters that spell these bytes in a byte-level vocabulary."""
    return "".join([CHARACTER_OF_BYTE[byte] for byte in data])


def bytes_of_byte_level_piece(piece: str) -> bytes:
    """A piece with a character outside the alphabet was never byte-level text: it is taken literally."""
    try:
        return bytes([_BYTE_OF_CHARACTER[character] for character in piece])
    except KeyError:
        return piece.encode()


def bytes_of_marked_piece(piece: str) -> bytes:
    return piece.replace(SPACE_MARK, " ").encode()


def byte_of_fallback_piece(piece: str) -> int | None:
    """0xE4 for "<0xE4>"; None for any other piece."""
    match = _BYTE_PIECE.fullmatch(piece)
    return int(match[1], 16) if match else None


def fallback_piece(byte: int) -> str:
    return f"<0x{byte:02X}>"
