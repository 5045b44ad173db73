"""`unspool explain`: an answer token by token, with what each stage did to the candidates."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from unspool.cli import amounts
from unspool.cli.answer import answers, print_whole_json, searching
from unspool.cli.decoding import Decoding, refuse_reports
from unspool.cli.decoding_options import with_decoding_options
from unspool.cli.interrupts import all_of
from unspool.cli.model_options import ModelOptions
from unspool.cli.options import with_model_options
from unspool.cli.run import Answers, MustContain, Prompt, Quiet, Raw, Search, System
from unspool.errors import BadRequest
from unspool.extras import EXTRAS
from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from unspool.types import Event

MAX_TOKENS: Final = 32  # unless more are asked for: each is a line to read


@with_decoding_options(
    leave_out=("trace", "include_stop"), defaults={"max_tokens": MAX_TOKENS}, has=("beam",)
)
@with_model_options
def explain(
    *,
    prompt: Prompt = None,
    model: ModelOptions,
    raw: Raw = False,
    system: System = None,
    n: Answers = None,
    search: Search = None,
    must_contain: MustContain = None,
    token: Annotated[
        str | None,
        typer.Option(metavar="N", help="Show the answer's token N alone, stage by stage; 1 is the first."),
    ] = None,
    expand: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|all",
            help="Show token N stage by stage below its line, or of a search what step N looked at; may be "
            "repeated.",
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw the candidates of --token (or of the first) through the stages into a .png or .svg "
            f"file. Needs the extra [plot]: pip install '{EXTRAS['plot']}'.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object with everything about every token.")
    ] = False,
    decoding: Decoding,
    quiet: Quiet = False,
) -> None:
    """Answer one prompt and show how each token came about: a line a token, and stages where asked.

    "raw p" is the model's own probability of the token, before anything; "final p" is that among the
    candidates it was chosen from. With the same options and seed `unspool run` writes the same tokens;
    here the token that ends the text is shown too.

    With --search the tree of hypotheses is shown instead: which went on, which ended, and why the others were
    dropped. "logprob" is of all tokens up to there.
    """
    decoding = model.beside(decoding)
    looks, n_answers, decoding = searching(decoding, search, amounts.count("-n", n), must_contain or ())
    if looks is None and n_answers is not None and n_answers > 1:
        raise BadRequest(
            "-n is for a --search with several answers; samples are explained one at a time", code="bad_n"
        )
    if not as_json:
        refuse_reports(decoding.params, ("logprobs", "prompt_logprobs"), "add --json")
    decoding = decoding.setting(trace=True, include_stop=True)
    view = View.of(token, expand or (), plot, as_json=as_json)
    view.check(decoding.params.max_tokens)
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
            heard = print_whole_json(events, asked, decoding, n=n_answers, quiet=quiet)
        elif looks is not None and view.only is None:
            heard = print_search(events, view, decoding, quiet=quiet)
        else:
            heard = list(print_table(events, view, decoding, quiet=quiet))
        view.finish(heard)


@dataclass(frozen=True, slots=True)
class View:
    """What of the answer is shown. Tokens are counted from 1."""

    only: int | None  # this token alone
    expanded: frozenset[int]
    expands_all: bool
    plot: Path | None

    @classmethod
    def of(cls, token: str | None, expand: Sequence[str], plot: str | None, *, as_json: bool) -> View:
        """Raises BadRequest for what cannot be shown, before anything is loaded."""
        only = amounts.count("--token", token)
        if as_json and expand:
            raise BadRequest("--json has every stage of every token; leave --expand out", code="bad_expand")
        if as_json and only is not None and plot is None:
            raise BadRequest("--json has every token; leave --token out", code="bad_token")
        if only is not None and expand:
            raise BadRequest("--token shows one token, expanded; leave --expand out", code="bad_expand")
        named = [each for each in expand if each != "all"]
        if strange := [each for each in named if not each.strip().isdecimal()]:
            raise BadRequest(
                f"--expand must be a token's number or all, got {strange[0]!r}", code="bad_expand"
            )
        numbers = frozenset(n for each in named if (n := amounts.count("--expand", each)) is not None)
        if plot is None:
            return cls(only, numbers, "all" in expand, None)
        from unspool.cli.explain_plot import check_plot

        return cls(only, numbers, "all" in expand, check_plot(plot))

    def shows(self, number: int) -> bool:
        return self.only is None or self.only == number

    def expands(self, number: int) -> bool:
        return self.expands_all or number in self.expanded or number == self.only

    def _named(self) -> list[tuple[str, int]]:
        """The tokens that must be there, each with its option."""
        return [("--token", self.only or 1), *(("--expand", n) for n in sorted(self.expanded))]

    def check(self, max_tokens: int | None) -> None:
        """Raise BadRequest for a token that no answer can have, before there is one."""
        for name, number in self._named():
            if max_tokens is not None and number > max_tokens:
                raise _no_such_token(name, number, f"an answer has at most {max_tokens} tokens")

    def finish(self, heard: Sequence[Event]) -> None:
        """Draw what is to be drawn. Raises BadRequest for a token that the answer does not have."""
        traces = [trace for event in heard if event.branch == 0 for trace in event.trace]
        n_steps = max(
            [len(traces), *(step.n_tokens for e in heard if e.search_tree for step in e.search_tree.steps)]
        )
        for name, number in self._named():
            n_there = n_steps if name == "--expand" else len(traces)
            if number > n_there:
                raise _no_such_token(name, number, f"the answer has {n_there} tokens")
        if self.plot is not None:
            from unspool.cli.explain_plot import draw, picture_of

            number = self.only or 1
            draw(picture_of(number, traces[number - 1]), self.plot)


def _no_such_token(name: str, number: int, there_are: str) -> BadRequest:
    return BadRequest(
        f"{name} {number}: {there_are}; name one of them, or raise --max-tokens",
        code=f"bad_{name.strip('-')}",
    )


def print_search(events: Iterable[Event], view: View, decoding: Decoding, *, quiet: bool) -> list[Event]:
    """Print the tree of a search when it has ended, the answers below it, and figures to standard error."""
    from unspool.cli.explain_table import quoted
    from unspool.cli.explain_tree import print_tree
    from unspool.cli.figures import figures_line

    heard = all_of(events, decoding, quiet=quiet)
    for event in heard:
        if event.error is not None:
            raise event.error
    for tree in (event.search_tree for event in heard):
        if tree is not None:
            print_tree(tree, view.expanded, expands_all=view.expands_all)
    texts: dict[int, str] = {}
    for event in sorted(heard, key=lambda event: event.branch):
        texts[event.branch] = texts.get(event.branch, "") + event.text
        if event.finish_reason is not None:
            print(f"answer {event.branch + 1}: {quoted(texts[event.branch])}")
            if not quiet:
                sys.stdout.flush()
                print(figures_line(event, decoding.shown_profile), file=sys.stderr)
    return heard


def print_table(events: Iterable[Event], view: View, decoding: Decoding, *, quiet: bool) -> Iterator[Event]:
    """Print a line for each token as it comes, and hand the events on; figures go to standard error."""
    from unspool.cli.explain_table import TraceTable
    from unspool.cli.figures import figures_line

    table, number = TraceTable(), 0
    for event in events:
        for trace in event.trace if event.branch == 0 else ():  # of several answers the best
            number += 1
            if view.shows(number):
                table.add(number, trace, expanded=view.expands(number))
        if event.error is not None:
            raise event.error
        if event.finish_reason is not None and not quiet:
            sys.stdout.flush()
            print(figures_line(event, decoding.shown_profile), file=sys.stderr)
        yield event
