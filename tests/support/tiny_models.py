"""Tiny random models of every family: in memory as a WeightSource, or written as a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unspool.errors import UnsupportedModel
from unspool.models.families import FAMILIES
from unspool.models.weights.base import Encoding, Tensor


@dataclass(frozen=True)
class TinySpec:
    """Sizes and traits of one tiny model. Widths are multiples of 32 so that block encodings fit."""

    family: str = "llama"  # a key of FAMILIES except mistral, which GGUF stores as llama
    n_layers: int = 2
    width: int = 64
    ffn_width: int = 96
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 16
    vocab_size: int = 96
    context_length: int = 128
    window: int | None = None
    tied: bool = True
    qkv_bias: bool = False  # on top of the families that always have one
    rope_factors: tuple[float, ...] | None = None  # (head_dim / 2,) as in llama 3.1 files
    metadata: tuple[tuple[str, Any], ...] = ()  # more keys, without the architecture's prefix
    seed: int = 0

    @property
    def label(self) -> str:
        traits = [self.family, f"w{self.window}" if self.window else "", "" if self.tied else "untied"]
        traits += [key.rsplit(".", 1)[-1] for key, _ in self.metadata]
        traits += ["bias"] if self.qkv_bias else []
        traits += ["factors"] if self.rope_factors else []
        return "-".join(trait for trait in traits if trait)


YARN = (
    ("rope.scaling.type", "yarn"),
    ("rope.scaling.factor", 4.0),
    ("rope.scaling.original_context_length", 32),
)

# One of each family, and what else the ops can do: windows shorter than the tests' prompts, caps,
# biases, fused projections, grouped and single kv heads, partial rotation, every rope scaling.
TINY_SPECS: tuple[TinySpec, ...] = (
    TinySpec("llama"),
    TinySpec("llama", window=7, tied=False, n_kv_heads=4, metadata=YARN),
    TinySpec("llama", rope_factors=(1.0, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 8.0), qkv_bias=True),
    TinySpec("qwen2", n_heads=6, n_kv_heads=1, tied=False),
    TinySpec("qwen3", head_dim=32),
    TinySpec("gemma2", window=5),
    TinySpec("gemma3", n_layers=7, window=6, head_dim=32, metadata=(("rope.scaling.factor", 8.0),)),
    TinySpec("phi3", window=9, tied=False, metadata=(("rope.dimension_count", 12),)),
)


@dataclass(frozen=True)
class ArraySource:
    """A WeightSource over arrays in memory, every tensor stored as F32."""

    metadata: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    format: str = "gguf"
    path: Path = Path("tiny.gguf")

    def names(self) -> Sequence[str]:
        return list(self.arrays)

    def tensor(self, name: str) -> Tensor:
        if name not in self.arrays:
            raise UnsupportedModel(f"{self.path}: tensor {name!r} is not in the file")
        array = np.ascontiguousarray(self.arrays[name], np.float32)
        return Tensor(name, array.shape, Encoding.F32, array.reshape(-1).view(np.uint8))

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def close(self) -> None:
        """Nothing to close."""

    def with_metadata(self, **changes: Any) -> ArraySource:
        """The same model with some keys set, or removed where the value is None. `__` stands for a dot."""
        metadata = dict(self.metadata)
        for key, value in changes.items():
            metadata[key.replace("__", ".")] = value
        return replace(self, metadata={key: value for key, value in metadata.items() if value is not None})

    def with_arrays(self, changes: Mapping[str, np.ndarray | None]) -> ArraySource:
        """The same model with some tensors replaced, or removed where the value is None."""
        arrays = {**self.arrays, **changes}
        return replace(self, arrays={name: array for name, array in arrays.items() if array is not None})


def tiny_source(spec: TinySpec) -> ArraySource:
    """The model of a spec, as a GGUF file of it would be read."""
    return ArraySource(tiny_metadata(spec), tiny_arrays(spec), path=Path(f"{spec.label}.gguf"))


def tiny_metadata(spec: TinySpec) -> dict[str, Any]:
    values: dict[str, Any] = {
        "block_count": spec.n_layers,
        "context_length": spec.context_length,
        "embedding_length": spec.width,
        "feed_forward_length": spec.ffn_width,
        "attention.head_count": spec.n_heads,
        "attention.head_count_kv": spec.n_kv_heads,
        "attention.key_length": spec.head_dim,
        "attention.value_length": spec.head_dim,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10_000.0,
        "vocab_size": spec.vocab_size,
    }
    if spec.window is not None:
        values["attention.sliding_window"] = spec.window
    values.update(spec.metadata)
    return {"general.architecture": spec.family} | {f"{spec.family}.{k}": v for k, v in values.items()}


def tiny_arrays(spec: TinySpec) -> dict[str, np.ndarray]:
    """GGUF name -> (n_out, n_in) float32; sized so that logits differ by whole units between tokens."""
    rng = np.random.default_rng(spec.seed)
    return {
        name: _random_tensor(rng, name, shape).astype(np.float32) for name, shape in tiny_shapes(spec).items()
    } | ({"rope_freqs.weight": np.asarray(spec.rope_factors, np.float32)} if spec.rope_factors else {})


def tiny_shapes(spec: TinySpec) -> dict[str, tuple[int, ...]]:
    family = FAMILIES[spec.family]
    q_width, kv_width = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (spec.vocab_size, spec.width)}
    for layer in range(spec.n_layers):
        block: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (spec.width,),
            "ffn_norm.weight": (spec.width,),
            "attn_output.weight": (spec.width, q_width),
            "ffn_down.weight": (spec.width, spec.ffn_width),
        }
        if family.fused:
            block["attn_qkv.weight"] = (q_width + 2 * kv_width, spec.width)
            block["ffn_up.weight"] = (2 * spec.ffn_width, spec.width)
        else:
            for stem, width in (("attn_q", q_width), ("attn_k", kv_width), ("attn_v", kv_width)):
                block[f"{stem}.weight"] = (width, spec.width)
                if family.qkv_bias or spec.qkv_bias:
                    block[f"{stem}.bias"] = (width,)
            block["ffn_gate.weight"] = block["ffn_up.weight"] = (spec.ffn_width, spec.width)
        if family.qk_norm:
            block["attn_q_norm.weight"] = block["attn_k_norm.weight"] = (spec.head_dim,)
        if family.post_norms:
            block["post_attention_norm.weight"] = block["post_ffw_norm.weight"] = (spec.width,)
        shapes |= {f"blk.{layer}.{stem}": shape for stem, shape in block.items()}
    shapes["output_norm.weight"] = (spec.width,)
    if not spec.tied:
        shapes["output.weight"] = (spec.vocab_size, spec.width)
    return shapes


def _random_tensor(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name.endswith("norm.weight"):
        return 1 + 0.2 * rng.standard_normal(shape)
    if name.endswith(".bias"):
        return 0.3 * rng.standard_normal(shape)
    return rng.standard_normal(shape) * (1.5 / np.sqrt(shape[-1]))


def write_gguf(
    path: Path,
    source: ArraySource,
    encodings: Mapping[str, str] | str = "F32",
    extra: Mapping[str, Any] | None = None,
) -> Path:
    """Write the model with the gguf package.

    `encodings` is one name for every matrix ("F16", "Q8_0", "Q4_0", ...: those that package can
    produce) or a name for each tensor; vectors stay F32. `extra` adds metadata, a tokenizer for one.
    """
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    architecture = source.metadata["general.architecture"]
    writer = GGUFWriter(str(path), architecture)
    for key, value in {**source.metadata, **(extra or {})}.items():
        if key != "general.architecture":
            _add_value(writer, key, value)
    for name, array in source.arrays.items():
        wanted = encodings if isinstance(encodings, str) else encodings.get(name, "F32")
        kind = GGMLQuantizationType["F32" if array.ndim == 1 else wanted]
        writer.add_tensor(
            name, quants.quantize(np.ascontiguousarray(array, np.float32), kind), raw_dtype=kind
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_value(writer: Any, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, list(value))


def byte_tokenizer_metadata() -> dict[str, Any]:
    """Byte-level: ids 0..255 are bytes in GPT-2's alphabet, 256 ends a text, 257 is two spaces."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        letters.setdefault(byte, chr(256 + len(letters) - len(printable)))
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [letters[byte] for byte in range(256)] + ["<|end|>", 2 * letters[32]],
        "tokenizer.ggml.token_type": [1] * 256 + [3, 1],
        "tokenizer.ggml.merges": [f"{letters[32]} {letters[32]}"],
        "tokenizer.ggml.eos_token_id": 256,
    }
