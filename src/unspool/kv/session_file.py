"""Session files: sessions as bytes, written whole or not at all.

    magic 8 bytes | version u32 | header_bytes u32 | SHA-256 of the header, 32 bytes
    header        JSON: {"identity": {...}, "n_tokens": N, "token_bytes": B, "sha256": HEX, "note": {...}}
    token ids     (N,) int32
    values        (N, B) bytes, token by token: no page size is in them

Numbers are little-endian. The header's "sha256" is of token ids and values together, and the header has
its own before it, so that every byte of the file is accounted for and a header can be believed before
gigabytes are read. A file is read to one side, checked as a whole, and only then used.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from unspool.errors import CapacityError, SessionFileError, brief, reason
from unspool.kv.session import KvIdentity, Session, check_identity
from unspool.light_dataclass import dataclass
from unspool.types import U8
from unspool.whole_file import whole_file

MAGIC: Final = b"\x89unspKV\n"  # no text, and mangled when it is copied as one
VERSION: Final = 1
DTYPES: Final = ("<f2", "<f4", "<f8", "<i4", ">f2", ">f4", ">f8", ">i4")
MAX_HEADER_BYTES: Final = 64 << 20
_PREAMBLE: Final = struct.Struct("<8sII32s")
_SAVE_AGAIN: Final = "the file is damaged: save the session again"


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """What a file says of itself before its values."""

    identity: KvIdentity
    n_tokens: int
    token_bytes: int
    sha256: str  # of token ids and values
    note: Mapping[str, Any]


def write_session(path: str | Path, session: Session) -> int:
    """All of a session to a file. Returns the bytes written."""
    path = Path(path)
    if not isinstance(session.note, Mapping):
        raise SessionFileError(path, "note", f"is {brief(session.note)}; give a dictionary")
    token_ids = np.ascontiguousarray(session.token_ids, "<i4")
    values = np.ascontiguousarray(session.values)
    digest = hashlib.sha256(_bytes_of(token_ids))
    digest.update(_bytes_of(values))
    content = {
        "identity": asdict(session.identity),
        "n_tokens": session.n_tokens,
        "token_bytes": values.shape[1],
        "sha256": digest.hexdigest(),
        "note": dict(session.note),
    }
    try:
        header = json.dumps(content, ensure_ascii=True, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise SessionFileError(
            path, "note", f"is no JSON ({problem}); give text, numbers and lists"
        ) from None
    if len(header) > MAX_HEADER_BYTES:
        raise SessionFileError(
            path, "note", f"makes a header of {len(header)} bytes, at most {MAX_HEADER_BYTES} fit; shorten it"
        )
    preamble = _PREAMBLE.pack(MAGIC, VERSION, len(header), hashlib.sha256(header).digest())
    parts = (preamble, header, _bytes_of(token_ids), _bytes_of(values))
    try:
        with whole_file(path) as file:
            for part in parts:
                file.write(part)
    except (OSError, ValueError) as problem:
        raise SessionFileError(
            path, "file", f"cannot be written: {reason(problem)}; choose another place"
        ) from problem
    return sum(len(part) for part in parts)


def read_session(path: str | Path, expected: KvIdentity | None = None) -> Session:
    """All of a session file, checked. SessionFileError names the field; with `expected`, also when the
    file belongs to another model (code `session_mismatch`), before its values are read."""
    with _opened(path) as file:  # buffered: readinto is whole or the end
        return _read_values(Path(path), file, _read_header(Path(path), file), expected)


def read_header(path: str | Path) -> SessionHeader:
    """What a session file is about; its values are left where they are."""
    with _opened(path) as file:
        return _read_header(Path(path), file)


@contextmanager
def _opened(path: str | Path) -> Iterator[BufferedReader]:
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SessionFileError(path, "file", "is not a regular file; give the path of a session file")
            yield file
    except (OSError, ValueError) as problem:  # ValueError: a name that cannot be one
        raise SessionFileError(
            path, "file", f"cannot be read: {reason(problem)}; check the path"
        ) from problem


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe without a writer would be waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _read_header(path: Path, file: BufferedReader) -> SessionHeader:
    file_bytes = os.fstat(file.fileno()).st_size
    header_bytes, header_sha256 = _read_preamble(path, file, file_bytes)
    header = file.read(header_bytes)
    if hashlib.sha256(header).digest() != header_sha256:
        raise SessionFileError(path, "header", f"does not match its SHA-256; {_SAVE_AGAIN}")
    content = _parsed(path, header)
    identity = _identity(path, content.get("identity"))
    n_tokens, token_bytes = _count(path, content, "n_tokens", 0), _count(path, content, "token_bytes", 1)
    note = content.get("note")
    if not isinstance(note, dict):
        raise SessionFileError(path, "note", f"is {brief(note)} and must be an object; {_SAVE_AGAIN}")
    n_bytes = _PREAMBLE.size + header_bytes + n_tokens * (4 + token_bytes)
    if n_bytes != file_bytes:
        raise SessionFileError(
            path,
            "n_tokens",
            f"{n_tokens} tokens make {n_bytes} bytes and the file has {file_bytes}; {_SAVE_AGAIN}",
        )
    return SessionHeader(identity, n_tokens, token_bytes, str(content.get("sha256")), note)


def _read_values(
    path: Path, file: BufferedReader, header: SessionHeader, expected: KvIdentity | None
) -> Session:
    if expected is not None:
        check_identity(path, header.identity, expected)
    try:
        token_ids = np.empty(header.n_tokens, "<i4")
        values = np.empty((header.n_tokens, header.token_bytes), np.uint8)
    except MemoryError:
        n_bytes = header.n_tokens * header.token_bytes
        raise CapacityError(
            f"memory ran out for the {n_bytes / 1e9:.1f} GB of {path}; load it where there is more",
            code="out_of_memory",
        ) from None
    digest = hashlib.sha256()
    for name, view in (("token_ids", _bytes_of(token_ids)), ("values", _bytes_of(values))):
        if file.readinto(view) != view.nbytes:
            raise SessionFileError(path, name, f"the file ends inside them; {_SAVE_AGAIN}")
        digest.update(view)
    if digest.hexdigest() != header.sha256:
        raise SessionFileError(path, "values", f"and token ids do not match their SHA-256; {_SAVE_AGAIN}")
    _check_finite(path, values, header.identity)
    return Session(header.identity, token_ids, values, header.note, str(path))


def _check_finite(path: Path, values: U8, identity: KvIdentity) -> None:
    """No runner stores infinities: where a page is masked they would become 0 * infinity."""
    dtype = np.dtype(identity.dtype)
    if dtype.kind != "f" or values.shape[1] % dtype.itemsize:
        return
    numbers = values.view(dtype)  # (N, numbers)
    step = max(1, (16 << 20) // values.shape[1])  # tokens
    for first in range(0, len(numbers), step):
        if not np.isfinite(numbers[first : first + step]).all():
            raise SessionFileError(
                path, "values", "hold infinities or what is not a number; save another session"
            )


def _read_preamble(path: Path, file: BufferedReader, file_bytes: int) -> tuple[int, bytes]:
    """Length and SHA-256 of the header."""
    if file_bytes == 0:
        raise SessionFileError(path, "file", "is empty; save the session again")
    preamble = file.read(_PREAMBLE.size)
    if preamble[: len(MAGIC)] != MAGIC[: len(preamble)]:
        raise SessionFileError(
            path, "magic", "this is not a session file; save_session and `unspool chat --session` write them"
        )
    if len(preamble) < _PREAMBLE.size:
        raise SessionFileError(path, "file", f"has {file_bytes} bytes, too few for a session; {_SAVE_AGAIN}")
    _, version, header_bytes, header_sha256 = _PREAMBLE.unpack(preamble)
    if version != VERSION:
        raise SessionFileError(
            path,
            "version",
            f"is {version} and must be {VERSION}: another unspool wrote it; save it again with this one",
        )
    room = min(MAX_HEADER_BYTES, file_bytes - _PREAMBLE.size)
    if header_bytes > room:
        raise SessionFileError(path, "header_bytes", f"is {header_bytes} and there are {room}; {_SAVE_AGAIN}")
    return header_bytes, header_sha256


def _parsed(path: Path, header: bytes) -> dict[str, Any]:
    try:
        content = json.loads(header.decode())
    except (ValueError, RecursionError) as problem:
        raise SessionFileError(path, "header", f"is no JSON ({problem}); {_SAVE_AGAIN}") from None
    if not isinstance(content, dict):
        raise SessionFileError(path, "header", f"is {brief(content)} and must be an object; {_SAVE_AGAIN}")
    return content


def _identity(path: Path, found: Any) -> KvIdentity:
    kinds = {"str": str, "int": int}
    names = {each.name: kinds[str(each.type)] for each in fields(KvIdentity)}
    if not isinstance(found, dict) or found.keys() != names.keys():
        raise SessionFileError(path, "identity", f"is {brief(found)}; it must have {', '.join(names)}")
    for name, kind in names.items():
        if type(found[name]) is not kind:
            raise SessionFileError(
                path,
                f"identity.{name}",
                f"is {brief(found[name])} and must be {kind.__name__}; {_SAVE_AGAIN}",
            )
    if found["dtype"] not in DTYPES:
        raise SessionFileError(
            path, "identity.dtype", f"is {brief(found['dtype'])} and must be one of {', '.join(DTYPES)}"
        )
    return KvIdentity(**found)


def _count(path: Path, content: Mapping[str, Any], name: str, least: int) -> int:
    value = content.get(name)
    if type(value) is not int or not least <= value < 1 << 48:
        raise SessionFileError(
            path, name, f"is {brief(value)} and must be a number from {least}; {_SAVE_AGAIN}"
        )
    return value


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """The bytes of an array in place."""
    return array.reshape(-1).view(np.uint8).data
