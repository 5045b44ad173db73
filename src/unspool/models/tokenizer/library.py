"""Failures of the tokenizers library, as typed errors.

It raises bare Exception for a file it cannot use, and where it did not expect one its Rust code panics: that
arrives as PanicException, which is no Exception at all and would end the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unspool.errors import ModelFileError, UnspoolError


@contextmanager
def blamed_on(file: str | Path, field: str, problem: str) -> Iterator[None]:
    """What the library cannot do inside is the fault of this field: "`problem`: what it said"."""
    try:
        yield
    except UnspoolError:
        raise
    except BaseException as failure:
        if not isinstance(failure, Exception) and type(failure).__name__ != "PanicException":
            raise  # Ctrl-C and the like
        said = " ".join(str(failure).split())[:200]
        raise ModelFileError(file, field, f"{problem}: {said}") from None
