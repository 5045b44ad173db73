"""Checks the tensors of a file against the configuration, so that a wrong file fails when it is opened."""

from __future__ import annotations

import re
from dataclasses import field

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.light_dataclass import dataclass
from unspool.models.model_config import ModelConfig
from unspool.models.weights.base import WeightSource

_LAYER_TENSOR = re.compile(r"blk\.(\d+)\.(.+)")
_IGNORED = re.compile(r".*(rotary_emb\.inv_freq|rope_freqs\.weight|attn_rot_embd.*)")  # recomputed here


@dataclass(slots=True)
class Tensors:
    """Hands out names of tensors that exist with the wanted shape, and remembers which were used."""

    source: WeightSource
    config: ModelConfig
    _used: set[str] = field(default_factory=set)

    def need(self, name: str, *shape: int) -> str:
        """The name itself, once the tensor is known to be there in this shape."""
        if name not in self.source:
            raise ModelFileError(self.source.path, name, f"is missing from a {self.config.family.name} model")
        found = self.source.tensor(name).shape
        if found != shape:
            raise ModelFileError(
                self.source.path, name, f"has shape {found}, but the model's configuration asks for {shape}"
            )
        self._used.add(name)
        return name

    def bias(self, stem: str, layer_stem: str, width: int) -> str | None:
        """The bias of a projection: None when the file has none and the model can do without."""
        name = f"{stem}.bias"
        if name not in self.source and layer_stem not in self.config.required_biases:
            return None
        return self.need(name, width)

    def refuse_unused(self) -> None:
        """A tensor of a layer that nothing reads means a network other than the one described here."""
        for name in self.source.names():
            match = _LAYER_TENSOR.fullmatch(name)
            if match is None or name in self._used or _IGNORED.fullmatch(name):
                continue
            if int(match[1]) >= self.config.n_layers:
                raise ModelFileError(
                    self.source.path,
                    name,
                    f"lies past the {self.config.n_layers} layers that it should have",
                )
            raise UnsupportedModel(
                f"{self.source.path}: tensor {name!r} has no place in architecture "
                f"{self.config.family.name!r}; the file holds a variant that is not supported"
            )
