"""A Hugging Face folder: config.json and safetensors weights, whole or in shards.

Tensors are reached by their GGUF names, so that architectures know one set of names. Values are those of
the checkpoint, rows of q and k in the checkpoint's order (its rope pairs (i, i + n/2), see `Rope.style`),
except norm weights of the Gemma families: the model multiplies by 1 + w, GGUF files hold that sum, and so
does what is returned here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from unspool.errors import ModelFileError, UnsupportedModel
from unspool.light_dataclass import dataclass
from unspool.models.weights.base import Encoding, Tensor
from unspool.models.weights.dequantize import dequantize
from unspool.models.weights.hf_folder import INDEX_NAME, weight_files
from unspool.models.weights.hf_names import CHECKPOINTS, Checkpoint, gguf_name, is_unused
from unspool.models.weights.json_file import described, read_json_object, read_optional_json_object
from unspool.models.weights.mapped_file import shown
from unspool.models.weights.safetensors_file import SafetensorsFile, StoredTensor


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor lies."""

    file_path: Path
    stored: StoredTensor
    encoding: Encoding


class SafetensorsSource:
    """An open folder; `path` is the folder, whatever file of it was named.

    `metadata` is config.json as it is, with generation_config.json (or {}) under "generation".
    """

    format = "safetensors"

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self.path = path if os.path.isdir(path) else path.parent
        files = weight_files(path)  # first, so that a folder of pickles is told what is wrong with it
        config_path = self.path / "config.json"
        if not os.path.isfile(config_path):
            raise ModelFileError(
                self.path, "config.json", "is missing; fetch it from where the weights came from"
            )
        config = read_json_object(config_path)
        config["generation"] = read_optional_json_object(self.path / "generation_config.json")
        self.metadata: Mapping[str, Any] = config
        self._checkpoint = _checkpoint(config_path, config)
        self._files: dict[Path, SafetensorsFile] | None = {}
        self._places: dict[str, _Place] = {}
        self.n_bytes: int = sum(file_path.stat().st_size for file_path, _ in files)
        for file_path, indexed_names in files:
            file = SafetensorsFile(file_path)
            self._files[file_path] = file
            self._add(file, indexed_names)

    def names(self) -> Sequence[str]:
        return tuple(self._places)

    def tensor(self, name: str) -> Tensor:
        place = self._places.get(name)
        if place is None:
            raise UnsupportedModel(f"{self.path}: has no tensor {shown(name)}, which this model needs")
        if self._files is None:
            raise ValueError(f"{self.path} is closed")
        stored = place.stored
        tensor = Tensor(name, stored.shape, place.encoding, self._files[place.file_path].data(stored))
        if self._checkpoint.norm_offset and name.endswith("norm.weight"):
            values = dequantize(tensor) + np.float32(self._checkpoint.norm_offset)
            return Tensor(name, stored.shape, Encoding.F32, values.astype("<f4").reshape(-1).view(np.uint8))
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def close(self) -> None:
        self._files = None

    def __enter__(self) -> SafetensorsSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, file: SafetensorsFile, indexed_names: Sequence[str] | None) -> None:
        """Place the tensors of one file; with an index, those that it promises there."""
        for name in file.tensors if indexed_names is None else indexed_names:
            stored = file.tensors.get(name)
            if stored is None:
                raise ModelFileError(
                    file.path, f"tensor {shown(name)}", f"is missing, though {INDEX_NAME} places it here"
                )
            if is_unused(name, self._checkpoint):
                continue
            ours = gguf_name(name, self._checkpoint)
            if ours is None:
                raise UnsupportedModel(
                    f"{file.path}: tensor {shown(name)} has no place in a "
                    f"{self.metadata['model_type']} model as unspool computes it; take an unmodified one"
                )
            if ours in self._places:
                twin = self._places[ours].stored.name
                raise ModelFileError(
                    file.path, f"tensor {shown(name)}", f"is the same weight as {shown(twin)}"
                )
            self._places[ours] = _Place(file.path, stored, file.encoding(stored))


def _checkpoint(config_path: Path, config: Mapping[str, Any]) -> Checkpoint:
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise ModelFileError(config_path, "model_type", f"is {described(model_type)}, expected a string")
    if model_type not in CHECKPOINTS:
        raise UnsupportedModel(
            f"{config_path}: model_type is {shown(model_type)}, which unspool does not compute; "
            f"it computes {', '.join(CHECKPOINTS)}"
        )
    if config.get("quantization_config") is not None:
        raise UnsupportedModel(
            f"{config_path}: quantization_config: the weights are quantized for another engine; "
            "take the unquantized version of the model, or a GGUF file"
        )
    return CHECKPOINTS[model_type]
