"""Files that are not weights, told by their first bytes, and what to do about each."""

from __future__ import annotations

from pathlib import Path

from unspool.errors import ModelFileError

HEAD_BYTES = 16

_CONVERT = (
    "take the model's safetensors or GGUF version, or convert it where you trust it: "
    "load it with transformers and call save_pretrained on a new folder"
)
PICKLE = f"is a pickle: opening one runs whatever code it holds, so unspool does not read it; {_CONVERT}"

_KNOWN_HEADS: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", f"is a zip archive, most likely a torch checkpoint, which {PICKLE}"),
    (b"PK\x05\x06", "is an empty zip archive; give a GGUF file or a safetensors folder"),
    *((bytes([0x80, protocol]), PICKLE) for protocol in range(2, 6)),
    *(
        (magic, "is in a ggml format older than GGUF; convert the original model to GGUF again")
        for magic in (b"lmgg", b"tjgg", b"fmgg")  # "ggml", "ggjt", "ggmf" as little-endian integers
    ),
    (b"version https://", "is a Git LFS pointer, not the file it stands for; run git lfs pull in its folder"),
    (b"<!DOCTYPE", "is a web page, not weights; its download failed, fetch it again"),
    (b"<html", "is a web page, not weights; its download failed, fetch it again"),
)


def refuse_foreign(path: Path, head: bytes) -> None:
    """Raise ModelFileError when the first bytes of a file say that it is something else by name."""
    for magic, problem in _KNOWN_HEADS:
        if head.startswith(magic):
            raise ModelFileError(path, "format", problem)
