"""Which files of a Hugging Face folder hold the weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from unspool.errors import ModelFileError
from unspool.models.weights.foreign_files import PICKLE
from unspool.models.weights.json_file import described, read_json_object
from unspool.models.weights.mapped_file import shown

WHOLE_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
MAX_FILE_NAME = 200  # characters; file systems stop at 255 bytes
_PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def weight_files(path: Path) -> list[tuple[Path, Sequence[str] | None]]:
    """Files and the tensors to take from each (None: all), for a folder or one file of it."""
    if not os.path.isdir(path):
        index = path.parent / INDEX_NAME
        shards = _shards(index) if os.path.isfile(index) else []
        if len(shards) > 1 and path in [shard for shard, _ in shards]:
            raise ModelFileError(path, "format", f"is one of {len(shards)} shards; give the folder")
        return [(path, None)]
    if os.path.isfile(path / WHOLE_NAME):
        return [(path / WHOLE_NAME, None)]
    if os.path.isfile(path / INDEX_NAME):
        return list(_shards(path / INDEX_NAME))
    return [(_only_safetensors(path), None)]


def _shards(index_path: Path) -> list[tuple[Path, Sequence[str]]]:
    """The shards an index names, in its order, each with its tensors."""
    weight_map = read_json_object(index_path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelFileError(index_path, "weight_map", "is missing or empty; fetch the file again")
    names_of: dict[str, list[str]] = {}
    for tensor_name, file_name in weight_map.items():
        # A name with a folder in it could reach any file of the machine.
        if not isinstance(file_name, str) or not _is_plain(file_name):
            problem = (
                f"is {described(file_name)}, expected the name of a .safetensors file in the same folder"
            )
            raise ModelFileError(index_path, f"weight_map of {shown(tensor_name)}", problem)
        names_of.setdefault(file_name, []).append(tensor_name)
    for file_name in names_of:
        if not os.path.isfile(index_path.parent / file_name):
            problem = (
                f"names {shown(file_name)}, which is not there; the download was cut short, fetch it again"
            )
            raise ModelFileError(index_path, "weight_map", problem)
    return [(index_path.parent / file_name, names) for file_name, names in names_of.items()]


def _is_plain(file_name: str) -> bool:
    return (
        file_name.endswith(".safetensors")
        and PurePosixPath(file_name).name == file_name
        and file_name.isprintable()
        and len(file_name) <= MAX_FILE_NAME
        and "\\" not in file_name
    )


def _only_safetensors(folder: Path) -> Path:
    """The one safetensors file of a folder that has no index, or an error that says what is there instead."""
    try:
        files = sorted(item for item in folder.iterdir() if os.path.isfile(item))
    except OSError as error:
        raise ModelFileError(folder, "weights", f"cannot be listed: {error}") from error
    candidates = [file for file in files if file.suffix == ".safetensors"]
    if len(candidates) == 1:
        return candidates[0]
    gguf = next((shown(file.name) for file in files if file.suffix == ".gguf"), None)
    pickle = next((shown(file.name) for file in files if file.suffix in _PICKLE_SUFFIXES), None)
    if candidates:
        problem = f"holds {len(candidates)} safetensors files but no {INDEX_NAME} to join them; fetch it"
    elif gguf:
        problem = f"holds no safetensors, but {gguf}; give the path of that file"
    elif pickle:
        problem = f"holds no safetensors, only {pickle}, which {PICKLE}"
    else:
        problem = f"holds neither {WHOLE_NAME} nor {INDEX_NAME}; give a safetensors folder or a GGUF file"
    raise ModelFileError(folder, "weights", problem)
