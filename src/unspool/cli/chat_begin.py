"""How a chat begins: anew, or with the conversation of a file, which is told once nothing can refuse it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unspool.cli.chat_commands import handle
from unspool.cli.chat_session import ChatSession
from unspool.errors import BadRequest
from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from unspool.cli.chat_kept import KeptChat


@dataclass(frozen=True, slots=True)
class Begun:
    """What there is to tell."""

    at_once: str = ""
    with_model: str = ""  # once the model has turned out to be the one that wrote the file


def begin(session: ChatSession, load: str | None, kept: KeptChat | None) -> Begun:
    """Take over the conversation of --load or --session. Raises BadRequest for what cannot go on."""
    goes_on = kept is not None and kept.is_there
    told = "" if kept is None else kept.begin()
    if load is not None:
        loaded = handle(session, f"/load {load}").text
        _refuse_what_cannot_go_on(session, load)
        return Begun("\n".join(part for part in (told, loaded) if part))
    if kept is None or not goes_on:
        return Begun(told)
    _refuse_what_cannot_go_on(session, kept.path)
    return Begun(with_model=told)


def _refuse_what_cannot_go_on(session: ChatSession, path: Path | str) -> None:
    """Raise BadRequest for it."""
    _refuse_half_a_contrast(session, path)
    _ = session.asked


def _refuse_half_a_contrast(session: ChatSession, path: Path | str) -> None:
    """Raise BadRequest for a conversation that was contrasted, where there is no second model now. No file
    has one loaded: its writer may be a stranger."""
    beta = session.params.contrast_beta
    if session.amateur is None and beta > 0 and session.origin is not None:
        raise BadRequest(
            f"{path} was contrasted (contrast_beta={beta:g}), which needs the second model again: give "
            f"{session.origin.options(is_contrasted=True)}, or --contrast-beta 0 to go on without",
            code="no_amateur",
        )
