"""Methods that people know from elsewhere and that are not here, by the names that ask for them, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_INSTEAD: Final = "contrast_beta with an amateur model contrasts logits, which needs none"
_CONTRASTIVE: Final = (
    f"contrastive search (Su et al. 2022, arXiv 2202.06417) is not supported: needs hidden states; {_INSTEAD}"
)
_DOLA: Final = (
    f"DoLa (Chuang et al. 2023, arXiv 2309.03883) is not supported: needs hidden states; {_INSTEAD}"
)

UNSUPPORTED: Final[Mapping[str, str]] = {
    "penalty_alpha": _CONTRASTIVE,  # transformers' parameter
    "contrastive": _CONTRASTIVE,
    "contrastive-search": _CONTRASTIVE,
    "contrastive_search": _CONTRASTIVE,
    "dola_layers": _DOLA,  # transformers' parameter
    "dola": _DOLA,
}
