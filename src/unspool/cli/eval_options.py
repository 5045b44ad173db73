"""Options that evaluations share, and which answers they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from unspool.cli.answer import beam_of, check_one_answer, search_named
from unspool.errors import BadRequest, ParameterConflict, brief
from unspool.whole_file import folder_problem

if TYPE_CHECKING:
    from unspool.cli.decoding import Decoding
    from unspool.evals.answering import Wanted
    from unspool.search.base import Search as SomeSearch

_RUN: Final = "How it runs"
_BESIDE: Final = ("guidance_scale", "negative_prompt", "contrast_beta", "contrast_alpha")
_OF_GREEDY: Final = frozenset({"max_tokens", "stop", *_BESIDE})

Search = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:SETTING=VALUE,...]",
        help="Also the best answer of a search to each problem, as in `unspool run`; sample: none, though "
        "the profile has one. [default: the profile's, else none]",
    ),
]
Greedy = Annotated[
    bool, typer.Option("--greedy/--no-greedy", help="Also one answer at temperature 0 to each problem.")
]
Concurrency = Annotated[
    str,
    typer.Option(metavar="N", help="Answers decoded side by side; changes no token.", rich_help_panel=_RUN),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Where the answers go, a line each; a file that has some is continued. "
        "[default: one for each setting, in the cache folder]",
        rich_help_panel=_RUN,
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Forget the answers that are there.", rich_help_panel=_RUN)
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object with settings, figures and every problem.")
]


def one_best(search: str | None, decoding: Decoding, n: int) -> SomeSearch | None:
    """The search whose best answer is evaluated beside n samples: as typed, or as the profile is meant for;
    None for none. Raises BadRequest."""
    name = beam_of(decoding) if search is None else search
    if name.partition(":")[0] == "constrained-beam":
        raise BadRequest(
            "--search constrained-beam needs phrases that each answer must contain, and problems have none "
            "in common; give another search",
            code="bad_search",
        )
    found = search_named(name, None)
    if found is None:
        return None
    check_one_answer(found, f"--search {name}", "the best one is evaluated")
    decoding.searched_by(found, also_samples=n > 0)
    return found


def wanted_of(
    decoding: Decoding, n: int, *, greedy: bool, stop: Sequence[str], search: SomeSearch | None
) -> list[Wanted]:
    """The answers that are asked for: greedy ones, n that are drawn as the parameters say, and the best one
    of a search.

    A greedy answer takes temperature 0, the length, and who reads beside it: guidance and contrast are a part
    of what is evaluated. Penalties and the like are for the samples.
    """
    from dataclasses import replace

    from unspool.evals.answering import Wanted
    from unspool.params import DecodingParams

    if n == 0 and not greedy and search is None:
        raise BadRequest(
            "-n 0 and --no-greedy leave nothing to do; give one of them, or a --search", code="bad_n"
        )
    params = decoding.params
    if n > 0 and params.is_greedy:
        with decoding.naming_profile("take another profile, raise temperature, or give -n 0"):
            raise ParameterConflict(
                f"temperature 0 makes {n} equal answers",
                ("temperature", "n"),
                way_out="raise temperature, or give -n 0 for greedy ones only",
            )
    if n == 0 and search is None:
        _refuse_for_samples(decoding)
    if params.seed is None:
        raise BadRequest(
            "--seed none is a fresh one each time; an evaluation that goes on needs its seed, as in 0",
            code="bad_seed",
        )
    if params.deadline_s is not None:
        raise BadRequest(
            f"{decoding.said('deadline_s')} makes answers depend on how fast this machine is; give "
            "max_tokens",
            code="bad_deadline_s",
        )
    ends = (*stop, *(each for each in params.stop if each not in stop))
    params = replace(params, stop=ends)
    beside = {name: getattr(params, name) for name in _BESIDE}
    once = DecodingParams(temperature=0, max_tokens=params.max_tokens, stop=params.stop, **beside)
    wanted = [Wanted("greedy", once, int(greedy)), Wanted("sample", params, n)]
    if search is not None:
        best = replace(decoding.for_search(search).params, stop=ends)
        wanted.append(Wanted("search", best, 1, search))
    return wanted


def check_out(out: str | None) -> None:
    """Raise BadRequest for an --out in a folder that is not there, before there is an answer to lose."""
    if out is not None and (problem := folder_problem(Path(out))):
        raise BadRequest(f"--out {out}: {problem}; make it, or name another", code="eval_file")


def _refuse_for_samples(decoding: Decoding) -> None:
    """Raise ParameterConflict for what was typed and greedy answers do not take; there are no others."""
    for name in decoding.typed:
        if name in decoding.by_default or name in _OF_GREEDY:
            continue
        value = getattr(decoding.params, name)
        if name != "temperature" or value > 0:
            raise ParameterConflict(
                f"{name}={brief(value)} is for samples or a search, and -n 0 leaves greedy answers alone",
                (name, "n"),
                way_out=f"leave {name} out, or give -n of at least 1",
            )
