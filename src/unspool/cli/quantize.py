"""`unspool quantize`: a GGUF file of a model, smaller as a rule."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from unspool.cli import amounts
from unspool.cli.options import Threads
from unspool.sizes import shown


def quantize(
    model: Annotated[
        str, typer.Argument(metavar="IN", help="A GGUF file, a safetensors folder, or a catalogue name.")
    ],
    out: Annotated[str, typer.Argument(metavar="OUT", help="The GGUF file to write.")],
    kind: Annotated[
        str,
        typer.Option(
            "--type",
            "-t",
            metavar="TYPE",
            help="q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k or q6_k, where embedding and output matrices keep "
            "6 or 8 bits; or f16, bf16 or f32.",
        ),
    ] = "q4_k",
    threads: Threads = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace OUT where it is there.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Nothing on standard error but errors.")
    ] = False,
) -> None:
    """Write a GGUF file with the same metadata and tokenizer, and matrices of another type.

    A folder with safetensors weights is converted; what GGUF has no words for is refused.

    Each block's scale and offset are found by a least-squares search. A model in F32, F16 or BF16 gives the
    best result: what was quantized before loses a second time.
    """
    n_threads = amounts.threads(threads)
    from unspool.models import catalogue
    from unspool.models.quantize_file import kind_named, quantize_file

    kind_named(kind)  # refuses one that there is not before a model is fetched

    def progress(name: str, number: int, n_tensors: int) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{number + 1}/{n_tensors} {name}", end="", file=sys.stderr, flush=True)

    written = quantize_file(
        catalogue.resolve(model),
        out,
        kind,
        n_threads=n_threads,
        replace=force,
        progress=None if quiet else progress,
    )
    if quiet:
        return
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if written.again:
        print(
            "note: the model was quantized before; from F16 or BF16 the file would be better", file=sys.stderr
        )
    if written.bytes_after > written.bytes_before:
        print(
            f"note: the file is larger than it was; {kind.lower()} has more bits than the model had",
            file=sys.stderr,
        )
    kinds = ", ".join(f"{n} {label}" for label, n in written.encodings.items())
    print(
        f"{written.path}: {shown(written.bytes_after)} of {shown(written.bytes_before)}, tensors: {kinds}",
        file=sys.stderr,
    )
