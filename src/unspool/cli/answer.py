"""One prompt, one answer or several, streamed: what `unspool run` does once its options are read.

Nothing here brings the machinery of options with it: see plain.py.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from unspool.cli import amounts
from unspool.cli.decoding import REPORTS, Decoding, refuse_reports
from unspool.cli.interrupts import all_of, seeded, until_interrupted
from unspool.cli.json_out import write_json
from unspool.cli.text import checked, decoded, write
from unspool.errors import BadRequest

if TYPE_CHECKING:
    from unspool.cli.model_options import ModelOptions
    from unspool.engine.stream import EventStream
    from unspool.llm import LLM
    from unspool.params import DecodingParams
    from unspool.search.base import Search as SomeSearch
    from unspool.types import Event

NEEDS: Final = ("beam",)  # of profiles, which this sees to


def answer(
    *,
    prompt: str | None = None,
    model: ModelOptions,
    raw: bool = False,
    system: str | None = None,
    n: str | None = None,
    search: str | None = None,
    must_contain: Sequence[str] | None = None,
    decoding: Decoding,
    quiet: bool = False,
    as_json: bool = False,
) -> None:
    """The options are as typed; `unspool run --help` says what they mean."""
    decoding = model.beside(decoding)
    looks, n_answers, decoding = searching(decoding, search, amounts.count("-n", n), must_contain or ())
    if not as_json:
        refuse_reports(decoding.params, REPORTS, "add --json, or see `unspool explain`")
    with answers(
        prompt,
        model=model,
        raw=raw,
        system=system,
        n=n_answers,
        search=looks,
        decoding=decoding,
        quiet=quiet,
    ) as (events, asked):
        if as_json:
            print_whole_json(events, asked, decoding, n=n_answers, quiet=quiet)
        else:
            print_stream(events, decoding, n=n_answers or 1, quiet=quiet)


@contextmanager
def answers(
    prompt: str | None,
    *,
    model: ModelOptions,
    raw: bool,
    system: str | None,
    n: int | None,
    search: SomeSearch | None,
    decoding: Decoding,
    quiet: bool,
) -> Iterator[tuple[Iterable[Event], dict[str, Any]]]:
    """The events of the answers to one prompt, and what JSON says of the question. What is typed wrong is
    refused before anything is loaded; the model is closed in the end."""
    if raw and system is not None:
        raise BadRequest("--system needs the chat template, which --raw leaves out; give one of them")
    text = read_prompt(prompt)
    system = None if system is None else checked(system, "--system")
    for note in decoding.notes() if not quiet else ():
        print(f"note: {note}", file=sys.stderr)
    llm = model.load(quiet=quiet)
    try:
        params = decoding.params if search is None else seeded(decoding.params, search)
        events, used_template = _start(
            llm, text, raw=raw, system=system, params=params, n=n, search=search, quiet=quiet
        )
        told = until_interrupted(events, is_search=search is not None, seed=params.seed)
        with closing(told) as heard:
            yield (
                heard,
                {"model": model.name, "prompt": text, "chat_template": used_template} | _reported(search),
            )
    finally:
        llm.close()


def searching(
    decoding: Decoding, search: str | None, n: int | None, must_contain: Sequence[str]
) -> tuple[SomeSearch | None, int | None, Decoding]:
    """The search that was asked for or that the profile is meant for (None samples), how many answers there
    will be where more than one may be, and the parameters beside it. Raises BadRequest."""
    if search is None:
        search = "constrained-beam" if must_contain else beam_of(decoding)
    looks = search_named(search, n, must_contain)
    if looks is None:
        return None, n, decoding
    decoding = decoding.searched_by(looks)
    return looks, n if looks.n_answers == 1 else looks.n_answers, decoding


def _reported(looks: SomeSearch | None) -> dict[str, Any]:
    """The search as JSON reports it."""
    if looks is None:
        return {"search": {"name": "sample"}}
    from unspool.search.named import described

    return {"search": described(looks)}


def beam_of(decoding: Decoding) -> str:
    """The search that the profile is meant for, as --search takes it."""
    wanted = decoding.need("beam")
    if "length_alpha" in wanted:
        wanted["alpha"] = wanted.pop("length_alpha")
    settings = ",".join(f"{name}={value}" for name, value in wanted.items())
    return f"beam:{settings}" if decoding.needs("beam") else "sample"


def spelled(search: SomeSearch) -> str:
    """A search as --search takes it: its name, and the settings that are not the usual ones."""
    from unspool.search.named import written_out

    return written_out(search)


def check_one_answer(search: SomeSearch, what: str, wanted: str) -> None:
    """Raise BadRequest for a search with several answers; `what` it was given as, `wanted` why one counts."""
    if search.n_answers != 1:
        raise BadRequest(
            f"{what} has {search.n_answers} answers and {wanted}; give a search with one", code="bad_search"
        )


def search_named(text: str, n: int | None, must_contain: Sequence[str] = ()) -> SomeSearch | None:
    """What --search says, with n answers; None for samples."""
    if text == "sample" and not must_contain:  # without what the others import
        return None
    from unspool.search.named import search_of

    return search_of(text, n, [checked(phrase, "--must-contain") for phrase in must_contain])


def read_prompt(prompt: str | None) -> str:
    """The argument, or standard input as UTF-8 without its last newline. Raises BadRequest."""
    if prompt is None or prompt == "-":
        if sys.stdin is None or (prompt is None and sys.stdin.isatty()):
            raise BadRequest(
                "there is no prompt; give it as an argument or through a pipe, or '-' to type it",
                code="no_prompt",
            )
        prompt = decoded(sys.stdin.buffer.read()).removesuffix("\n").removesuffix("\r")
    if not prompt:
        raise BadRequest("the prompt is empty; give some text to start from", code="empty_prompt")
    return checked(prompt, "the prompt")


def _start(
    llm: LLM,
    text: str,
    *,
    raw: bool,
    system: str | None,
    params: DecodingParams,
    n: int | None = None,
    search: SomeSearch | None = None,
    quiet: bool,
) -> tuple[EventStream, bool]:
    """The events of the answers, and whether the chat template was used."""
    n = 1 if n is None else n
    if raw:
        return llm.stream(text, params, n=n, search=search), False
    from unspool.cli.load import can_chat

    if not can_chat(llm):
        if system is not None:
            raise BadRequest("--system needs a chat template and this model has none; put it in the prompt")
        if not quiet:
            print(
                "note: this model has no chat template; the prompt is continued as it stands", file=sys.stderr
            )
        return llm.stream(text, params, n=n, search=search), False
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return llm.stream_chat(messages, params, n=n, search=search), True


def print_stream(events: Iterable[Event], decoding: Decoding, *, n: int = 1, quiet: bool) -> None:
    """Write text as it becomes final, and a newline after it; figures follow on standard error.

    Of several answers the first is written as it comes, and each of the others when those before it are done.
    """
    from unspool.cli.figures import figures_line

    branch = 0
    for event in in_turn(events):
        if event.branch != branch:
            branch = event.branch
            print("---")
        write(event.text)
        if event.finish_reason is None:
            continue
        print(flush=True)
        if event.error is not None:
            raise event.error
        if not quiet:
            print(figures_line(event, decoding.shown_profile, is_one_of_many=n > 1), file=sys.stderr)
        if event.finish_reason == "cancelled":
            raise KeyboardInterrupt  # nobody wants the beginnings of the others


def print_whole_json(
    events: Iterable[Event], asked: dict[str, Any], decoding: Decoding, *, n: int | None, quiet: bool
) -> list[Event]:
    """Print answers as JSON when all events have come, which are returned: one answer, or a list of n. After
    Ctrl-C what was written by then, with the finish reason "cancelled"."""

    def broken_off(heard: list[Event]) -> None:
        from unspool.types import Event

        ended = {event.branch for event in heard if event.finish_reason is not None}
        seed = next((event.seed for event in heard if event.seed is not None), decoding.params.seed)
        ends = [
            Event(0, "", (), branch=branch, finish_reason="cancelled", seed=seed)
            for branch in range(n or 1)
            if branch not in ended
        ]
        print_json([*heard, *ends], asked, decoding, as_list=n is not None)

    heard = all_of(events, decoding, quiet=quiet, broken_off=broken_off)
    print_json(heard, asked, decoding, as_list=n is not None)
    return heard


def print_json(
    events: Iterable[Event], asked: dict[str, Any], decoding: Decoding, *, as_list: bool = False
) -> None:
    by_branch = groupby(in_turn(events), key=lambda event: event.branch)
    answers = [_answer_dict(list(heard), asked, decoding) for _, heard in by_branch]
    write_json(answers if as_list else answers[0])


def in_turn(events: Iterable[Event]) -> Iterator[Event]:
    """Events of several branches, one branch after the other; those of the first as they come."""
    waiting: dict[int, deque[Event]] = {}
    turn = 0
    for event in events:
        waiting.setdefault(event.branch, deque()).append(event)
        while waiting.get(turn):
            yield (told := waiting[turn].popleft())
            turn += told.finish_reason is not None


def _answer_dict(heard: Sequence[Event], asked: dict[str, Any], decoding: Decoding) -> dict[str, Any]:
    from unspool.cli.figures import usage_dict
    from unspool.cli.report_json import reports_of

    last = heard[-1]
    if last.error is not None:
        raise last.error
    answer = {
        "text": "".join(event.text for event in heard),
        "token_ids": [token_id for event in heard for token_id in event.token_ids],
        "finish_reason": last.finish_reason,
        "stop": last.stop,
        "seed": last.seed,
        "branch": last.branch,
        "score": last.score,
        "usage": None if last.usage is None else usage_dict(last.usage),
    }
    how = {"profile": decoding.profile_label, "params": decoding.params.to_dict()}
    return asked | answer | reports_of(heard, decoding.params) | how
