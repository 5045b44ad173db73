"""`unspool best`: several answers to one prompt, and a verifier that picks the best."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from unspool.cli import amounts
from unspool.cli.answer import beam_of, read_prompt, search_named
from unspool.cli.best_progress import Counter
from unspool.cli.best_verifier import VerifierOptions, print_verifiers
from unspool.cli.decoding import REPORTS, Decoding
from unspool.cli.decoding_options import with_decoding_options
from unspool.cli.interrupts import seeded
from unspool.cli.json_out import write_json
from unspool.cli.model_options import ModelOptions
from unspool.cli.options import with_model_options
from unspool.cli.run import MustContain, Prompt, Quiet, Raw, System
from unspool.cli.text import checked, write
from unspool.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from unspool.best import BestReport, Judged
    from unspool.llm import LLM
    from unspool.params import DecodingParams
    from unspool.search.best_of import BestOf

N_ANSWERS: Final = 16
Search = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:SETTING=VALUE,...]",
        help="Whose answers are judged: sample, or the n best of a search as in `unspool run`. "
        "[default: the profile's, else sample]",
    ),
]
_JUDGE: Final = "The verifier"


def _told(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help, rich_help_panel=_JUDGE)


@with_decoding_options(leave_out=REPORTS, has=("best_of", "beam"))
@with_model_options
def best(
    *,
    prompt: Prompt = None,
    model: ModelOptions,
    n: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--n",
            metavar="N",
            help="Answers to write, side by side. [default: the profile's, or its beam's width; else 16]",
        ),
    ] = None,
    raw: Raw = False,
    system: System = None,
    search: Search = None,
    must_contain: MustContain = None,
    verifier: Annotated[
        str | None,
        _told("NAME|MODULE:FUNCTION", "What judges the answers: see `unspool best --verifier list`."),
    ] = None,
    tests: Annotated[
        str | None, _told("FILE", "python-tests: Python with asserts, test functions or unittest cases.")
    ] = None,
    answer_regex: Annotated[
        str | None,
        _told("REGEX", "majority, regex: what finds the result of an answer. [majority: its last number]"),
    ] = None,
    weighted: Annotated[
        bool,
        typer.Option("--weighted", help="majority: likelier answers weigh more.", rich_help_panel=_JUDGE),
    ] = False,
    expect: Annotated[
        str | None, _told("NUMBER", "arithmetic: the number to come to, with its unit.")
    ] = None,
    schema: Annotated[str | None, _told("FILE", "json-schema: the schema.")] = None,
    source: Annotated[
        list[str] | None,
        _told("[LABEL=]FILE", "citations: a text that may be quoted. May be repeated."),
    ] = None,
    url: Annotated[
        str | None, _told("URL", "http-reward: where to post; llm-judge: the API, http://host:port/v1.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME=VALUE",
            help="Any setting of the verifier; VALUE is JSON, or text. May be repeated.",
            rich_help_panel=_JUDGE,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Stop when all answers together have so many tokens, those that end them counted. "
            "[default: none]",
        ),
    ] = None,
    all_answers: Annotated[
        bool, typer.Option("--all", help="Judge all answers, also when the verifier has decided.")
    ] = False,
    decoding: Decoding,
    quiet: Quiet = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object with all answers, verdicts and votes.")
    ] = False,
) -> None:
    """Write several answers to one prompt, judge each, and print the best.

    Standard output has the best answer and nothing else, standard error the ranking. Answers are judged as
    they end; the rest is stopped once one is accepted, or a vote cannot change any more.
    """
    from unspool.best import broken_off
    from unspool.search.best_of import BestOf
    from unspool.search.sample import Sample

    if verifier == "list":
        print_verifiers()
        return
    wanted = decoding.need("best_of")
    verifier = verifier or wanted.get("verifier")
    judge = VerifierOptions(
        _required(verifier),
        settings or (),
        tests,
        answer_regex,
        weighted,
        expect,
        schema,
        source or (),
        url,
    )
    if raw and system is not None:
        raise BadRequest("--system needs the chat template, which --raw leaves out; give one of them")
    typed_n, budget_tokens = amounts.count("-n", n), amounts.count("--budget", budget)
    decoding = model.beside(decoding)
    width = None if search is not None or must_contain else decoding.need("beam").get("width")
    if search is None:
        search = "constrained-beam" if must_contain else beam_of(decoding)
    if typed_n is not None:
        n_answers = typed_n
    elif "n" in wanted:
        n_answers = wanted["n"]
        if width is not None and n_answers > width:
            raise BadRequest(
                f"profile {decoding.profile_label} has {n_answers} answers judged, and its beam has {width} "
                f"at most; give -n up to {width}, or a --search",
                code="bad_n",
            )
    else:
        n_answers = N_ANSWERS if width is None else width
    looks = search_named(search, n_answers, must_contain or ())
    decoding = decoding.searched_by(looks)

    def spec_of(continues_prompt: bool) -> BestOf:
        return BestOf(
            Sample() if looks is None else looks,
            n=n_answers,
            verifier=judge.make(continues_prompt=continues_prompt),
            budget_tokens=budget_tokens,
            early_stop=not all_answers,
        )

    spec = spec_of(raw)
    with decoding.naming_profile("take another profile, raise temperature, or give -n 1"):
        spec.params(decoding.params)  # refuses before anything is loaded
    text = read_prompt(prompt)
    judge.check(text, spec.verifier, is_prompt_piped=prompt in (None, "-"))
    system = None if system is None else checked(system, "--system")
    for note in decoding.notes() if not quiet else ():
        print(f"note: {note}", file=sys.stderr)
    from unspool.cli.load import can_chat

    params = seeded(decoding.params, looks)
    llm = model.load(quiet=quiet)
    try:
        used_template = not raw and can_chat(llm)
        asked = {"model": model.name, "prompt": text, "chat_template": used_template}
        if not used_template and not raw:
            spec = spec_of(True)
        counter = Counter(n_answers, is_shown=not quiet and verifier != "person" and sys.stderr.isatty())
        try:
            report = _run(llm, text, spec, params, system, used_template, quiet=quiet or raw, watch=counter)
        except KeyboardInterrupt:
            counter.close()
            if as_json:
                _print_json(broken_off(counter.judged, text, spec, params), asked, decoding, judge)
            if not quiet:
                seed = "" if params.seed is None else f" | seed: {params.seed}"
                print(f"{counter.line} | end: interrupted{seed}", file=sys.stderr)
            raise
        finally:
            counter.close()
    finally:
        llm.close()
    if as_json:
        _print_json(report, asked, decoding, judge)
    else:
        _print(report, quiet=quiet)


def _run(
    llm: LLM,
    text: str,
    spec: BestOf,
    params: DecodingParams,
    system: str | None,
    used_template: bool,
    *,
    quiet: bool,
    watch: Callable[[Judged], None] | None,
) -> BestReport:
    if used_template:
        messages = [{"role": "user", "content": text}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        return llm.best_chat(messages, spec, params, watch=watch)
    if system is not None:
        raise BadRequest("--system needs a chat template and this model has none; put it in the prompt")
    if not quiet:
        print("note: this model has no chat template; the prompt is continued as it stands", file=sys.stderr)
    return llm.best(text, spec, params, watch=watch)


def _print(report: BestReport, *, quiet: bool) -> None:
    from unspool.cli.best_table import ranking_rows, summary_line, tie_line, vote_rows
    from unspool.cli.table import print_table

    if report.best is not None:
        write(report.best.text)
        print(flush=True)
    if quiet:
        return
    for rows in (ranking_rows(report), vote_rows(report)):
        if rows:
            print(file=sys.stderr)
            print_table(rows, sys.stderr)
    if tie := tie_line(report):
        print(f"\n{tie}", file=sys.stderr)
    print(f"\n{summary_line(report)}", file=sys.stderr)


def _print_json(
    report: BestReport, asked: dict[str, Any], decoding: Decoding, judge: VerifierOptions
) -> None:
    from unspool.cli.best_table import report_dict

    how = {
        "verifier": judge.name,
        "profile": decoding.profile_label,
        "params": decoding.params.to_dict(),
    }
    write_json(asked | report_dict(report) | how)


def _required(verifier: str | None) -> str:
    from unspool.search.verifiers.registry import names

    if verifier is None:
        raise BadRequest(
            f"--verifier is missing: what judges the answers? There are: {', '.join(names())}",
            code="no_verifier",
        )
    return verifier
