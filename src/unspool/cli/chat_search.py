"""How a chat looks for its answers: as somebody said, or as its profile is meant to. One answer goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unspool.cli.answer import beam_of, check_one_answer, search_named

if TYPE_CHECKING:
    from unspool.cli.decoding import Decoding
    from unspool.search.base import Search

SAMPLE = "sample"


def typed_search(search: str | None, must_contain: Sequence[str] = ()) -> Search | None:
    """The search that --search names, or that phrases need. Raises BadRequest."""
    if search is None and not must_contain:
        return None
    search = "constrained-beam" if search is None else search
    return _with_one_answer(search_named(search, None, must_contain), f"--search {search}")


def meant_by(decoding: Decoding) -> Search | None:
    """The search that the profile is meant for."""
    return search_named(beam_of(decoding), None) if "beam" in decoding.has else None


def written(search: Search | None) -> dict[str, Any]:
    """A search as a file has it; None samples."""
    if search is None:
        return {"name": SAMPLE}
    from unspool.search.named import described

    return described(search)


def read(told: Any) -> Search | None:
    """The search that a file tells of. Raises BadRequest."""
    if told == {"name": SAMPLE}:
        return None
    from unspool.search.named import search_from

    return _with_one_answer(search_from(told), "the search")


def _with_one_answer(search: Search | None, what: str) -> Search | None:
    if search is not None:
        check_one_answer(search, what, "a chat goes on with one, where `unspool run` writes several")
    return search
