"""Writers of GGUF and safetensors bytes that will write anything, right or wrong."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

NUMBERS = {
    "u8": 0,
    "i8": 1,
    "u16": 2,
    "i16": 3,
    "u32": 4,
    "i32": 5,
    "f32": 6,
    "u64": 10,
    "i64": 11,
    "f64": 12,
}
FORMATS = dict(zip(NUMBERS, "BbHhIifQqd", strict=True))
BOOL, STRING, ARRAY = 7, 8, 9


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def number(kind: str, value: float) -> bytes:
    return struct.pack("<I" + FORMATS[kind], NUMBERS[kind], value)


def string(value: str | bytes) -> bytes:
    return struct.pack("<I", STRING) + text(value)


def array(item_type: int, n_items: int, items: bytes) -> bytes:
    return struct.pack("<IIQ", ARRAY, item_type, n_items) + items


def entry(name: str | bytes, dims: tuple[int, ...], type_id: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type_id, offset)


class GgufWriter:
    """Collects pairs and directory entries as raw bytes; counts may be overridden."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.magic = b"GGUF"
        self.version = struct.pack("<I", 3)
        self.pairs: list[bytes] = []
        self.entries: list[bytes] = []
        self.data = b""
        self.n_keys: int | None = None
        self.n_tensors: int | None = None
        self.alignment = 32

    def pair(self, key: str | bytes, value: bytes) -> "GgufWriter":
        self.pairs.append(text(key) + value)
        return self

    def tensor(self, name: str | bytes, dims: tuple[int, ...], type_id: int, data: bytes) -> "GgufWriter":
        """dims as GGUF stores them, fastest first."""
        self.data += b"\0" * (-len(self.data) % self.alignment)
        self.entries.append(entry(name, dims, type_id, len(self.data)))
        self.data += data
        return self

    def bytes(self) -> bytes:
        n_tensors = len(self.entries) if self.n_tensors is None else self.n_tensors
        n_keys = len(self.pairs) if self.n_keys is None else self.n_keys
        header = self.magic + self.version + struct.pack("<QQ", n_tensors, n_keys)
        header += b"".join(self.pairs) + b"".join(self.entries)
        return header + b"\0" * (-len(header) % self.alignment) + self.data

    def write(self, name: str = "model.gguf") -> Path:
        path = self.folder / name
        path.write_bytes(self.bytes())
        return path


@pytest.fixture
def gguf_writer(tmp_path: Path) -> GgufWriter:
    return GgufWriter(tmp_path)


@pytest.fixture
def small_gguf(gguf_writer: GgufWriter) -> GgufWriter:
    """Every kind of value and two tensors."""
    values = np.arange(64, dtype=np.float32)
    writer = gguf_writer.pair("general.architecture", string("llama"))
    for kind in NUMBERS:
        writer.pair(f"one.{kind}", number(kind, 7))
        items = np.arange(5).astype("<" + np.dtype(FORMATS[kind]).str[1:])
        writer.pair(f"many.{kind}", array(NUMBERS[kind], 5, items.tobytes()))
    writer.pair("one.bool", struct.pack("<IB", BOOL, 1))
    writer.pair("many.bool", array(BOOL, 3, b"\1\0\1"))
    writer.pair("many.string", array(STRING, 3, text("a") + text("") + text("für")))
    inner = struct.pack("<IQ", NUMBERS["u8"], 2) + b"\5\6"
    writer.pair("many.array", array(ARRAY, 2, inner + inner))
    writer.pair("none.string", array(STRING, 0, b""))
    writer.tensor("a.weight", (32, 2), 0, values.tobytes())
    writer.tensor("b.weight", (64,), 8, b"\1" * 68)
    return writer


def safetensors_bytes(tensors: dict[str, np.ndarray], dtype: str | None = None) -> bytes:
    """float32 and float16 arrays as they are; uint16 arrays count as bfloat16."""
    names = {"float32": "F32", "float16": "F16", "uint16": "BF16", "uint8": "U8", "float64": "F64"}
    header, data = {}, b""
    for name, array in tensors.items():
        stored = array.tobytes()
        header[name] = {
            "dtype": dtype or names[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(stored)],
        }
        data += stored
    return raw_safetensors(json.dumps(header | {"__metadata__": {"format": "pt"}}), data)


def raw_safetensors(header: str | bytes, data: bytes = b"") -> bytes:
    header = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(header)) + header + data


class HfFolder:
    """A folder as transformers writes it."""

    safetensors_bytes = staticmethod(safetensors_bytes)
    raw_safetensors = staticmethod(raw_safetensors)

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def config(self, model_type: str, **values: object) -> "HfFolder":
        (self.path / "config.json").write_text(json.dumps({"model_type": model_type} | values))
        return self

    def weights(self, tensors: dict[str, np.ndarray], name: str = "model.safetensors") -> "HfFolder":
        (self.path / name).write_bytes(safetensors_bytes(tensors))
        return self

    def index(self, weight_map: object) -> "HfFolder":
        (self.path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        return self


@pytest.fixture
def hf_folder(tmp_path: Path) -> HfFolder:
    return HfFolder(tmp_path / "model")
