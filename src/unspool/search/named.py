"""Searches by name, with settings as text: what the command line and files give."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from unspool.errors import BadRequest, brief, named
from unspool.search.base import Search
from unspool.search.beam import Beam
from unspool.search.beam_sample import BeamSample
from unspool.search.constrained_beam import ConstrainedBeam
from unspool.search.diverse_beam import DiverseBeam
from unspool.search.stochastic_beam import StochasticBeam
from unspool.unsupported import UNSUPPORTED

# Each with the setting that says how many answers there are.
SEARCHES: Final[Mapping[str, tuple[Any, str]]] = {
    "beam": (Beam, "n_best"),
    "beam-sample": (BeamSample, "n_best"),
    "constrained-beam": (ConstrainedBeam, "n_best"),
    "diverse-beam": (DiverseBeam, "n_best"),
    "stochastic-beam": (StochasticBeam, "k"),
}
_NOT_TYPED: Final = ("phrases", "compiled")  # settings that the text after a name cannot give
_WORDS: Final = {"true": True, "false": False}


def search_of(text: str, n: int | None, must_contain: Sequence[str] = ()) -> Search | None:
    """`NAME` or `NAME:SETTING=VALUE,...` as a search with n answers; None for "sample".

    `must_contain` are phrases for a constrained beam, alternatives with | between. Raises BadRequest for
    names and settings that there are not.
    """
    name, colon, rest = text.partition(":")
    if name == "sample" and not colon:
        _check_phrases(None, name, must_contain)
        return None
    if name == "sample":
        raise BadRequest(
            f"search sample has no settings, got {brief(rest)}; -n says how many answers", code="bad_search"
        )
    if name in UNSUPPORTED:
        raise BadRequest(f"search {name}: {UNSUPPORTED[name]}", code="not_supported")
    if name not in SEARCHES:
        near = difflib.get_close_matches(name, [*SEARCHES, "sample"], n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise BadRequest(
            f"there is no search {brief(name)}; {hint}there are: sample, {', '.join(SEARCHES)}",
            code="unknown_search",
        )
    kind, counting = SEARCHES[name]
    fields = [field.name for field in dataclasses.fields(kind) if field.name not in _NOT_TYPED]
    settings: dict[str, Any] = {}
    _check_phrases(kind, name, must_contain)
    if must_contain:
        settings["phrases"] = [_phrase(given) for given in must_contain]
    for part in rest.split(",") if colon else ():
        setting, equals, value = part.partition("=")
        setting = setting.strip().replace("-", "_")
        if setting not in fields or not equals:
            known = ", ".join(f"{field}=VALUE" for field in fields)
            raise BadRequest(
                f"search {name} has no setting {brief(part)}; write {known}",
                code="bad_search",
            )
        if setting in settings:
            raise BadRequest(f"search {name} is given {setting} twice; keep one", code="bad_search")
        settings[setting] = _value(value.strip())
    if n is not None:
        if settings.get(counting, n) != n:
            raise BadRequest(
                f"{named('n', n)} and {counting}={settings[counting]} both say how many answers; give one of "
                "them",
                code="bad_n",
            )
        settings[counting] = n
        if counting == "n_best":
            width = settings.setdefault("width", max(n, _default_width(kind)))
            if isinstance(width, int) and 1 <= width < n:
                raise BadRequest(
                    f"{named('n', n)} is more answers than a search with width={width} has; ask for {width} "
                    f"at most, or give a width of {n}",
                    code="bad_n",
                )
    search: Search = kind(**settings)
    return search


def described(search: Search) -> dict[str, Any]:
    """The name of a search and its settings, as plain values."""
    name = next(name for name, (kind, _) in SEARCHES.items() if type(search) is kind)
    fields = [field.name for field in dataclasses.fields(cast(Any, search)) if field.name != "compiled"]
    return {"name": name, **{field: getattr(search, field) for field in fields}}


def written_out(search: Search) -> str:
    """NAME, or NAME:SETTING=VALUE,... with the settings that are not at their defaults, but for phrases."""
    told = described(search)
    defaults = {field.name: field.default for field in dataclasses.fields(cast(Any, search))}
    settings = [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in told.items()
        if name not in ("name", *_NOT_TYPED) and value != defaults[name]
    ]
    return ":".join([str(told["name"]), *([",".join(settings)] if settings else [])])


def search_from(told: Any) -> Search:
    """The search that `described` tells of. Raises BadRequest for what tells of none."""
    name = told.get("name") if isinstance(told, Mapping) else None
    if not isinstance(name, str) or name not in SEARCHES:
        raise BadRequest(
            f"a search must have a name, one of {', '.join(SEARCHES)}, and settings; got {brief(told)}",
            code="bad_search",
        )
    kind, _ = SEARCHES[name]
    settings = {setting: value for setting, value in told.items() if setting != "name"}
    known = {field.name for field in dataclasses.fields(kind)} - {"compiled"}
    if unknown := sorted(settings.keys() - known):
        raise BadRequest(f"search {name} has no setting {brief(unknown[0])}", code="bad_search")
    if kind is ConstrainedBeam and "phrases" not in settings:
        raise BadRequest(f"search {name} needs phrases, and there are none", code="bad_search")
    search: Search = kind(**settings)
    return search


def _default_width(kind: Any) -> int:
    return next(int(str(field.default)) for field in dataclasses.fields(kind) if field.name == "width")


def _check_phrases(kind: Any, name: str, must_contain: Sequence[str]) -> None:
    if (kind is ConstrainedBeam) == bool(must_contain):
        return
    if must_contain:
        raise BadRequest(
            f"search {name} knows no phrases; with --must-contain give --search constrained-beam, or none",
            code="bad_search",
        )
    raise BadRequest(
        "search constrained-beam needs phrases that answers must contain; give --must-contain TEXT for each",
        code="bad_search",
    )


def _phrase(text: str) -> str | list[str]:
    """Alternatives with | between; `\\|` is the sign itself."""
    alternatives = [each.replace("\\|", "|") for each in re.split(r"(?<!\\)\|", text)]
    if not all(alternatives):
        raise BadRequest(
            f"--must-contain takes a text, or texts with | between, none of them empty, got {brief(text)}",
            code="bad_phrases",
        )
    return alternatives[0] if len(alternatives) == 1 else alternatives


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
