"""`unspool kv`: how much memory a model and its keys and values take, and what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from unspool.cli.amounts import count
from unspool.cli.json_out import write_json
from unspool.cli.table import print_table
from unspool.cli.text import number_or_text
from unspool.errors import BadRequest, brief
from unspool.models.catalogue import DEFAULT_MODEL

if TYPE_CHECKING:
    from unspool.kv.calculator import Fit, KvMemory
    from unspool.models.cache_shape import CacheShape

_SHAPE: Final = "A shape instead of a model"
_NONE: Final = "-"
_LEAST_BARE_BYTES: Final = 1 << 20


def _count_option(flag: str, meaning: str) -> Any:
    return typer.Option(flag, metavar="N", help=meaning, rich_help_panel=_SHAPE)


def show_kv(
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="A catalogue name (nothing is fetched), a GGUF file or a safetensors folder. "
            f"[default: {DEFAULT_MODEL}]",
        ),
    ] = None,
    amateur: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="A second model beside it, given as --model is, which reads every sequence too.",
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(metavar="N", help="Tokens of each sequence, prompt included. [default: the model's]"),
    ] = None,
    batch: Annotated[str, typer.Option(metavar="N", help="Sequences at once.")] = "1",
    kv: Annotated[
        str, typer.Option("--kv", metavar="f16|int8|int4", help="Format of K and V, for the formula.")
    ] = "f16",
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Say what fits into so much, weights included: 8GiB.")
    ] = None,
    page_size: Annotated[str, typer.Option(metavar="N", help="Tokens a page of this engine.")] = "32",
    layers: Annotated[str | None, _count_option("--layers", "Layers with attention.")] = None,
    kv_heads: Annotated[str | None, _count_option("--kv-heads", "Heads of K and V a layer.")] = None,
    head_dim: Annotated[str | None, _count_option("--head-dim", "Values of a head.")] = None,
    window: Annotated[
        str | None, _count_option("--window", "Tokens that layers with a sliding window read.")
    ] = None,
    window_layers: Annotated[
        str | None, _count_option("--window-layers", "How many layers have the window. [default: all]")
    ] = None,
    latent: Annotated[
        str | None, _count_option("--latent", "Latent attention: rank of the compressed K and V.")
    ] = None,
    rope_dim: Annotated[
        str | None, _count_option("--rope-dim", "Latent attention: values of the rotary key.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Weights as loaded: 4.5GiB.", rich_help_panel=_SHAPE),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Memory of a model and its KV cache, by the formula and as this engine allocates it; nothing is loaded.

    "formula" is bytes = 2 * layers * kv heads * head size * tokens * sequences * bytes a value, with sliding
    windows and latent attention taken into account. "this engine" keeps whole pages of float16 for all
    layers: int8 and int4 are what-ifs.
    """
    from unspool.sizing import kv_memory

    numbers = {
        "--layers": layers,
        "--kv-heads": kv_heads,
        "--head-dim": head_dim,
        "--window": window,
        "--window-layers": window_layers,
        "--latent": latent,
        "--rope-dim": rope_dim,
    }
    shape = _shape({flag: n for flag, text in numbers.items() if (n := count(flag, text)) is not None})
    if shape is not None and model is not None:
        raise BadRequest(f"--model {model} has a shape of its own; leave --layers and the like out")
    if kv not in ("f16", "int8", "int4"):
        raise BadRequest(
            f"--kv must be one of f16, int8, int4, got {brief(kv)}; leave it out for f16, which this engine "
            "stores",
            code="bad_kv",
        )
    memory_bytes = None if memory is None else _bytes("--memory", memory)
    found = kv_memory(
        (model or DEFAULT_MODEL) if shape is None else None,
        shape=shape,
        context_length=count("--context", context),
        n_sequences=count("--batch", batch) or 1,
        kv_format=kv,
        page_size=count("--page-size", page_size) or 32,
        weight_bytes=None if weights is None else _bytes("--weights", weights),
        amateur=amateur,
    )
    name = (model or DEFAULT_MODEL) if shape is None else None
    if as_json:
        write_json({"model": name, "amateur": amateur} | found.to_dict(memory_bytes), indent=2)
        return
    print(f"{name + ': ' if name else ''}{found.shape.what}")
    print_table(_rows(found, memory_bytes))
    for note in _notes(found):
        print(f"note: {note}")


def _bytes(name: str, text: str) -> int:
    """A size. A bare number is of bytes, and one that is too small to be meant so is refused."""
    from unspool.sizes import read_bytes

    value = number_or_text(text)
    if isinstance(value, (int, float)) and 0 < value < _LEAST_BARE_BYTES:
        raise BadRequest(
            f"{name} {text} is bytes without a unit, and must then be at least {_LEAST_BARE_BYTES}; add one, "
            f"as in {text}GiB",
            code=f"bad_{name.strip('-')}",
        )
    return read_bytes(name, value)


def _shape(numbers: dict[str, int]) -> CacheShape | None:
    """The shape that the flags describe; None without any. BadRequest where they do not add up."""
    from unspool.models.cache_shape import CacheShape

    if not numbers:
        return None
    is_latent = "--latent" in numbers or "--rope-dim" in numbers
    needed = ("--layers", "--latent", "--rope-dim") if is_latent else ("--layers", "--kv-heads", "--head-dim")
    optional = () if is_latent else ("--window", "--window-layers")
    if missing := [flag for flag in needed if flag not in numbers]:
        raise BadRequest(f"a shape needs {', '.join(needed)}; {missing[0]} is missing", code="bad_shape")
    if extra := [flag for flag in numbers if flag not in needed + optional]:
        raise BadRequest(f"{extra[0]} has no meaning beside --latent; leave it out", code="bad_shape")
    n_layers = numbers["--layers"]
    if is_latent:
        return CacheShape.of_latent(n_layers, numbers["--latent"], numbers["--rope-dim"])
    n_local = numbers.get("--window-layers", n_layers if "--window" in numbers else 0)
    if n_local > n_layers or (n_local and "--window" not in numbers):
        raise BadRequest(
            f"--window-layers must be at most --layers ({n_layers}) and needs --window, got {n_local}",
            code="bad_shape",
        )
    windows = [numbers["--window"]] * n_local + [None] * (n_layers - n_local) if n_local else ()
    return CacheShape.of_heads(n_layers, numbers["--kv-heads"], numbers["--head-dim"], windows=windows)


def _rows(found: KvMemory, memory_bytes: int | None) -> list[tuple[str, ...]]:
    from unspool.sizes import shown

    def row(what: str, formula: int | None, engine: int | None) -> tuple[str, ...]:
        return what, *(_NONE if n is None else f"{shown(n)} ({n:,})" for n in (formula, engine))

    n, tokens = found.n_sequences, found.context_length
    beside = found.engine_runs_it
    rows = [
        ("BYTES", f"FORMULA, {found.kv_format}", "THIS ENGINE, f16"),
        row("KV of a token", found.token_bytes, found.engine_token_bytes),
        row(f"KV of a sequence of {tokens:,}", found.sequence_bytes, found.engine_sequence_bytes),
        row(f"KV of {n:,} such", found.kv_bytes, found.engine_kv_bytes),
        row("weights as loaded", found.weight_bytes, found.weight_bytes if beside else None),
    ]
    if found.step_bytes is not None:
        rows.append(row("a step's work, about", found.step_bytes, found.step_bytes))
    rows.append(row("at most in all", found.total_bytes, found.engine_total_bytes))
    if memory_bytes is None:
        return rows
    fits: list[Fit | None] = [found.fit(memory_bytes), found.engine_fit(memory_bytes)]
    longest = (_NONE if fit is None else _fitting(fit.context_length) for fit in fits)
    most = (_NONE if fit is None else _fitting(fit.n_sequences) for fit in fits)
    rows.append((f"in {shown(memory_bytes)}, tokens for each of {n:,}", *longest))
    rows.append((f"in {shown(memory_bytes)}, sequences of {tokens:,}", *most))
    return rows


def _fitting(n: int) -> str:
    return f"{n:,}" if n else "none"


def _notes(found: KvMemory) -> list[str]:
    notes = []
    if not found.engine_runs_it:
        notes.append("this engine does not run such a model")
    elif found.kv_format != "f16":
        notes.append(f"{found.kv_format} is a what-if, without its scales: this engine stores float16")
    if found.engine_runs_it and any(window is not None for window in found.shape.windows):
        notes.append("this engine keeps all tokens of layers with a window too")
    own = found.shape.context_length
    if own is not None and found.context_length > own:
        notes.append(f"the model's own context is {own:,} tokens")
    if found.engine_runs_it and found.n_strands > 1:
        notes.append(
            "for a contrasted sequence this engine takes pages for the amateur beside the model's own, and "
            "each page has room for both"
        )
    if found.weight_bytes is None:
        notes.append("the weights are not known and not counted; --weights 4.5GiB adds them")
    return notes
