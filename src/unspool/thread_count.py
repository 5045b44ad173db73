"""How many threads anything here may be told to compute with."""

from __future__ import annotations

import os
from typing import Any, Final

from unspool.errors import BadRequest, brief, named

MAX_THREADS: Final = 256


def usable_processors() -> int:
    """How many processors this process may run on."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on macOS or Windows
        return max(1, os.cpu_count() or 1)


def usual_threads() -> int:
    """How many there are where nobody says: one a processor, within what may be asked for."""
    return min(usable_processors(), MAX_THREADS)


def check_threads(n_threads: Any) -> None:
    """Raise BadRequest for what is no number of threads; None is all processors."""
    if n_threads is None:
        return
    if type(n_threads) is not int or not 1 <= n_threads <= MAX_THREADS:
        raise BadRequest(
            f"{named('threads')} must be a whole number in [1, {MAX_THREADS}], got {brief(n_threads)}; leave "
            "it out for all processors",
            code="bad_threads",
        )
