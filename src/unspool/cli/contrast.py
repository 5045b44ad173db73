"""What --amateur and --contrast say of a decoding; the options themselves are in options.py."""

from __future__ import annotations

from typing import Any, Final

from unspool.cli.decoding import Decoding
from unspool.cli.text import number_or_text
from unspool.errors import BadRequest, brief

_USUAL: Final = 0.5  # beta of the paper, where an amateur is given and nobody says how much
_SETTINGS: Final = {"alpha": "contrast_alpha", "beta": "contrast_beta"}


def contrasting(decoding: Decoding, amateur: str | None, contrast: str | None) -> Decoding:
    """The decoding with what the two options say. Raises BadRequest for one without the other."""
    typed: dict[str, Any] = {}
    for part in filter(None, (contrast or "").split(",")):
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
    if typed:
        decoding = decoding.setting(**typed)
    says_beta = "contrast_beta" in typed or "contrast_beta" in decoding.typed
    if amateur is not None and not says_beta and decoding.params.contrast_beta == 0:
        decoding = decoding.setting(contrast_beta=_USUAL)
    if amateur is None and (contrast is not None or decoding.params.contrast_beta > 0):
        raise BadRequest(
            "a contrast needs a second model; add --amateur with a smaller one of the same tokens",
            code="no_amateur",
        )
    if amateur is not None and decoding.params.contrast_beta == 0:
        raise BadRequest(
            f"the amateur {brief(amateur)} has no part in it while beta is 0; give beta=0.5, or leave "
            "--amateur out",
            code="bad_contrast",
        )
    return decoding
