"""How many threads anything here may be told to compute with."""

from __future__ import annotations

from typing import Any, Final

from unspool.errors import BadRequest, brief, named

MAX_THREADS: Final = 256


def check_threads(n_threads: Any) -> None:
    """Raise BadRequest for what is no number of threads; None is all processors."""
    if n_threads is None:
        return
    if type(n_threads) is not int or not 1 <= n_threads <= MAX_THREADS:
        raise BadRequest(
            f"{named('threads')} must be in [1, {MAX_THREADS}], got {brief(n_threads)}; leave it out for all "
            "processors",
            code="bad_threads",
        )
