"""What --contrast and --amateur say of a decoding; the options themselves are in options.py."""

from __future__ import annotations

from typing import Any, Final

from unspool.cli.decoding import Decoding
from unspool.cli.text import number_or_text
from unspool.errors import BadRequest, brief

USUAL_BETA: Final = 0.5  # beta of the paper, where an amateur is given and nobody says how much
_SETTINGS: Final = {"alpha": "contrast_alpha", "beta": "contrast_beta"}


def saying(decoding: Decoding, contrast: str | None) -> Decoding:
    """The decoding with what --contrast says as typed. Raises BadRequest."""
    typed: dict[str, Any] = {}
    for part in () if contrast is None else contrast.split(","):
        name, equals, value = part.partition("=")
        parameter = _SETTINGS.get(name.strip())
        if parameter is None or not equals:
            raise BadRequest(
                f"--contrast takes alpha=X and beta=X, got {brief(part)}; as in alpha=0.1,beta=0.5",
                code="bad_contrast",
            )
        if parameter in typed or parameter in decoding.typed:
            raise BadRequest(
                f"--contrast says {name.strip()}, and so does another option; keep one", code="bad_contrast"
            )
        typed[parameter] = number_or_text(value.strip())
    return decoding.setting(**typed) if typed else decoding


def contrasted(decoding: Decoding, amateur: str | None) -> Decoding:
    """The decoding with an amateur beside it, or without. Raises BadRequest for a contrast without an amateur
    and for an amateur without a contrast."""
    if amateur is not None and "contrast_beta" not in decoding.typed and not decoding.params.contrast_beta:
        decoding = decoding.setting(contrast_beta=USUAL_BETA)
    beta = decoding.params.contrast_beta
    if amateur is None and beta > 0:
        raise no_amateur(decoding.said("contrast_beta"))
    if amateur is not None and beta == 0:
        raise BadRequest(
            f"the amateur {brief(amateur)} has no part in it while beta is 0; give beta=0.5, or leave "
            "--amateur out",
            code="bad_contrast",
        )
    return decoding


def no_amateur(what: str) -> BadRequest:
    return BadRequest(
        f"{what} is a contrast, which needs a second model; add --amateur with a smaller one of the same "
        "tokens",
        code="no_amateur",
    )
