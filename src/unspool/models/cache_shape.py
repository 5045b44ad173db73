"""How many values of keys and values a token leaves in each layer: all that their size depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from unspool.errors import BadRequest, brief, named
from unspool.light_dataclass import dataclass

MAX_LAYERS: Final = 1024
MAX_SIZE: Final = 1 << 30  # of heads, their values and windows


@dataclass(frozen=True, slots=True)
class CacheShape:
    """One entry a layer, the first first."""

    values: tuple[int, ...]  # (L,) of one token
    windows: tuple[int | None, ...]  # (L,) how many of the last tokens the layer reads; None: all
    kind: Literal["heads", "latent"]
    context_length: int | None  # longest sequence in tokens, where it is known
    what: str  # for people

    @classmethod
    def of_heads(
        cls,
        n_layers: int,
        n_kv_heads: int | Sequence[int],
        head_dim: int,
        *,
        windows: Sequence[int | None] = (),
        context_length: int | None = None,
    ) -> CacheShape:
        """K and V of n_kv_heads heads: as many as query heads (MHA), fewer (GQA, Ainslie et al. 2023, arXiv
        2305.13245) or 1 (MQA, Shazeer 2019, arXiv 1911.02150). `windows` has one entry a layer, or none."""
        _check_layers(n_layers)
        heads = [n_kv_heads] * n_layers if isinstance(n_kv_heads, int) else list(n_kv_heads)
        reach = tuple(windows) or (None,) * n_layers
        for what, given in (("n_kv_heads", heads), ("windows", reach)):
            if len(given) != n_layers:
                raise BadRequest(
                    f"{what} must have one entry for each of {n_layers} layers, got {len(given)}",
                    code="bad_shape",
                )
        for size in heads:
            _check_size("n_kv_heads", size)
        _check_size("head_dim", head_dim)
        for window in reach:
            if window is not None:
                _check_size("windows", window)
        told = str(heads[0]) if len(set(heads)) == 1 else f"{min(heads)} to {max(heads)}"
        what = f"{n_layers} layers, {told} kv head{'' if told == '1' else 's'} of {head_dim}"
        if local := [window for window in reach if window is not None]:
            spans = " and ".join(map(str, sorted(set(local))))
            what += f", {len(local)} layers with a window of {spans}"
        return cls(tuple(2 * n * head_dim for n in heads), reach, "heads", context_length, what)

    @classmethod
    def of_latent(
        cls, n_layers: int, latent_rank: int, rope_dim: int, *, context_length: int | None = None
    ) -> CacheShape:
        """Latent attention (MLA; DeepSeek-V2, arXiv 2405.04434): one compressed vector that K and V are made
        of, and a rotary key that all heads share. No factor 2, and no heads."""
        _check_layers(n_layers)
        _check_size("latent_rank", latent_rank)
        _check_size("rope_dim", rope_dim)
        what = f"{n_layers} layers, latent of {latent_rank} + {rope_dim}"
        values = (latent_rank + rope_dim,) * n_layers
        return cls(values, (None,) * n_layers, "latent", context_length, what)

    def beside(self, amateur: CacheShape) -> CacheShape:
        """Of a model and its amateur, which both keep every token; sequences are as long as the model's."""
        kind = self.kind if self.kind == amateur.kind else "heads"
        what = f"{self.what}; amateur: {amateur.what}"
        return CacheShape(
            self.values + amateur.values, self.windows + amateur.windows, kind, self.context_length, what
        )


def _check_layers(n_layers: int) -> None:
    if type(n_layers) is not int or not 1 <= n_layers <= MAX_LAYERS:
        raise BadRequest(
            f"{named('n_layers')} must be a whole number in [1, {MAX_LAYERS}], got {brief(n_layers)}; "
            "the model's own configuration says it",
            code="bad_shape",
        )


def _check_size(name: str, size: int) -> None:
    if type(size) is not int or not 1 <= size <= MAX_SIZE:
        raise BadRequest(
            f"{named(name)} must be a whole number in [1, {MAX_SIZE}], got {brief(size)}; the model's own "
            "configuration says it",
            code="bad_shape",
        )
