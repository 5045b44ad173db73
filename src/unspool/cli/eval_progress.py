"""How far an evaluation has come, on standard error: a bar on a terminal, a line for each tenth in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias

from unspool.cli.text import counted

if TYPE_CHECKING:
    from unspool.evals.question import Answer

Watch: TypeAlias = "Callable[[Sequence[Answer]], None]"
_N_LINES: Final = 10


@contextmanager
def eval_progress(n_all: int, n_done: int, *, quiet: bool) -> Iterator[Watch]:
    """A callable that hears of answers; `n_done` were there before."""
    if quiet or n_done == n_all:
        yield lambda _: None
    elif sys.stderr.isatty():
        yield from _bar(n_all, n_done)
    else:
        yield _log(n_all, n_done)


def _log(n_all: int, n_done: int) -> Watch:
    begun, n_tokens, n_new = monotonic(), 0, 0

    def watch(answers: Sequence[Answer]) -> None:
        nonlocal n_tokens, n_new
        n_before = n_done + n_new
        n_new += len(answers)
        n_tokens += sum(answer.n_tokens for answer in answers)
        n_now = n_done + n_new
        if n_now * _N_LINES // n_all > n_before * _N_LINES // n_all:
            took = max(monotonic() - begun, 1e-9)
            print(
                f"{n_now} of {counted(n_all, 'answer')}, {counted(n_tokens, 'token')}, "
                f"{n_tokens / took:.1f} a second",
                file=sys.stderr,
                flush=True,
            )

    return watch


def _bar(n_all: int, n_done: int) -> Iterator[Watch]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("answers"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[speed]}", markup=False),
    )  # fmt: skip
    begun, n_tokens = monotonic(), 0
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("answers", total=n_all, completed=n_done, speed="")

        def watch(answers: Sequence[Answer]) -> None:
            nonlocal n_tokens
            n_tokens += sum(answer.n_tokens for answer in answers)
            speed = f"{n_tokens / max(monotonic() - begun, 1e-9):.0f} tokens/s"
            progress.update(bar, advance=len(answers), speed=speed)

        yield watch
