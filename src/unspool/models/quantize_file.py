"""From a GGUF file to another: the same metadata and tokenizer, matrices in another encoding, and as a rule
smaller. A folder with safetensors weights is put into the words of GGUF before (conversion/).

Vectors of a file stay as they are; a folder's become F32. Embedding and output matrices keep more than the
others where these have 4 or 5 bits, as is usual in such files: Q8_0 beside the kinds with a scale per 32
values, Q6_K beside those with blocks of 256. Rows that do not divide into blocks of 256 take the nearest kind
of 32; rows that do not divide into those stay as they are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from unspool.errors import BadRequest, brief, named
from unspool.light_dataclass import dataclass
from unspool.models.weights import Encoding, Tensor, open_weights
from unspool.models.weights.gguf import DEFAULT_ALIGNMENT, GgufSource
from unspool.models.weights.gguf_writer import Planned, pair, write_gguf
from unspool.models.weights.quantize import quantize, require_finite
from unspool.models.weights.quantized_source import OUTER
from unspool.thread_count import check_threads
from unspool.whole_file import folder_problem

if TYPE_CHECKING:
    from unspool.models.conversion import ConvertedFolder


@dataclass(frozen=True, slots=True)
class Kind:
    encoding: Encoding
    outer: Encoding  # of embedding and output
    narrow: Encoding  # where rows are no multiple of 256
    file_type: int  # general.file_type: what most matrices are, as llama.cpp numbers them


_E = Encoding
KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "q4_0": Kind(_E.Q4_0, _E.Q8_0, _E.Q4_0, 2),
        "q4_1": Kind(_E.Q4_1, _E.Q8_0, _E.Q4_1, 3),
        "q5_0": Kind(_E.Q5_0, _E.Q8_0, _E.Q5_0, 8),
        "q5_1": Kind(_E.Q5_1, _E.Q8_0, _E.Q5_1, 9),
        "q8_0": Kind(_E.Q8_0, _E.Q8_0, _E.Q8_0, 7),
        "q4_k": Kind(_E.Q4_K, _E.Q6_K, _E.Q4_1, 14),
        "q5_k": Kind(_E.Q5_K, _E.Q6_K, _E.Q5_1, 16),
        "q6_k": Kind(_E.Q6_K, _E.Q6_K, _E.Q8_0, 18),
        "f16": Kind(_E.F16, _E.F16, _E.F16, 1),
        "bf16": Kind(_E.BF16, _E.BF16, _E.BF16, 32),
        "f32": Kind(_E.F32, _E.F32, _E.F32, 0),
    }
)
_QUANTIZATION_VERSION: Final = 2  # of the block layouts


@dataclass(frozen=True, slots=True)
class Quantized:
    """What was written."""

    path: Path
    bytes_before: int
    bytes_after: int
    encodings: Mapping[str, int]  # label -> tensors
    again: bool  # matrices were quantized before


def quantize_file(
    model: str | Path,
    out: str | Path,
    kind: str,
    *,
    n_threads: int | None = None,
    replace: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Quantized:
    """Write `out`, a GGUF file of `model` with matrices of `kind`. `model` is a GGUF file, or a folder with
    safetensors weights.

    progress  called with a tensor's name, its number and how many there are, before it is worked on
    replace   an existing file gives way

    Raises BadRequest for a kind or a path that makes no sense, UnsupportedModel where a folder holds
    what GGUF cannot say, ModelFileError where values are no numbers or the file cannot be written.
    """
    chosen = kind_named(kind)
    check_threads(n_threads)
    model, out = Path(model), Path(out)
    _check_target(model, out, replace)
    source = open_weights(model)
    try:
        if isinstance(source, GgufSource):
            return _write(source, model.stat().st_size, out, chosen, n_threads, progress)
        from unspool.models.conversion import ConvertedFolder

        return _write(ConvertedFolder(source), source.n_bytes, out, chosen, n_threads, progress)
    finally:
        source.close()


def kind_named(kind: str) -> Kind:
    """What a name stands for. Raises BadRequest for one that there is not."""
    chosen = KINDS.get(kind.lower()) if isinstance(kind, str) else None
    if chosen is None:
        raise BadRequest(
            f"{named('kind')} must be one of {', '.join(KINDS)}, got {brief(kind)}", code="bad_type"
        )
    return chosen


def _check_target(model: Path, out: Path, replace: bool) -> None:
    if "\0" in str(out):
        raise BadRequest(f"{str(out)!r}: no file can be named so; give another name", code="bad_output")
    if problem := folder_problem(out):
        raise BadRequest(f"{out}: {problem}; make it, or name another", code="bad_output")
    if os.path.isdir(out):
        raise BadRequest(f"{out}: is a folder; give the name of a file", code="bad_output")
    if _is_of_folder(model, out):
        raise BadRequest(
            f"{out}: is or would be a file of the model itself; give a name that ends in .gguf",
            code="bad_output",
        )
    if not os.path.exists(out):
        return
    if not os.path.isfile(out):  # a device or a pipe, which a file would take the place of
        raise BadRequest(f"{out}: is no regular file; give another name", code="bad_output")
    if os.path.exists(model) and os.path.samefile(model, out):
        raise BadRequest(f"{out}: is the model itself; give another name", code="bad_output")
    if not replace:
        raise BadRequest(f"{out}: is there already; give another name, or --force", code="bad_output")


def _is_of_folder(model: Path, out: Path) -> bool:
    """Whether `out` takes the place of a file that a folder's model is read from, or would be one."""
    folder = model.parent if model.suffix == ".safetensors" else model
    if not os.path.isdir(folder):
        return False
    if os.path.samefile(folder, out.parent) and out.suffix != ".gguf":
        return True
    own = (item for item in folder.iterdir() if item.suffix != ".gguf" and item.exists())
    return os.path.exists(out) and any(os.path.samefile(item, out) for item in own)


def _write(
    source: GgufSource | ConvertedFolder,
    n_bytes: int,
    out: Path,
    kind: Kind,
    n_threads: int | None,
    progress: Callable[[str, int, int], None] | None,
) -> Quantized:
    planned, again = [], False
    for name in source.names():
        tensor = source.stored(name)
        plan = Planned(name, tensor.shape, _encoding(tensor, kind))
        planned.append(plan)
        again |= tensor.encoding.block_values > 1 and tensor.encoding is not plan.encoding

    def made() -> Iterator[Tensor]:
        for number, plan in enumerate(planned):
            if progress is not None:
                progress(plan.name, number, len(planned))
            tensor = source.tensor(plan.name)
            if plan.encoding is not tensor.encoding:
                yield quantize(tensor, plan.encoding, n_threads)
            else:
                require_finite(tensor)
                yield tensor

    pairs = source.pairs() | {
        "general.file_type": pair("general.file_type", kind.file_type),
        "general.quantization_version": pair("general.quantization_version", _QUANTIZATION_VERSION),
    }
    alignment: Any = source.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    write_gguf(out, list(pairs.values()), planned, made(), alignment)
    return Quantized(
        path=out,
        bytes_before=n_bytes,
        bytes_after=out.stat().st_size,
        encodings=dict(Counter(plan.encoding.label for plan in planned).most_common()),
        again=again,
    )


def _encoding(tensor: Tensor, kind: Kind) -> Encoding:
    """What the tensor is stored as in the new file."""
    if len(tensor.shape) < 2 or not tensor.name.endswith(".weight"):
        return tensor.encoding
    width = tensor.shape[-1]
    wanted = kind.outer if tensor.name in OUTER else kind.encoding
    if width % wanted.block_values:
        wanted = Encoding.Q8_0 if tensor.name in OUTER else kind.narrow
    return tensor.encoding if width % wanted.block_values else wanted
