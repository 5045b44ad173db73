"""The generated tables about decoding: stages, orders, presets, profiles, parameters."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Sequence

# Masks are no part of `order`, so param_conflicts does not know their parameters.
MASK_PARAMETERS = {
    "allowed_tokens": "`allowed_token_ids`",
    "banned_tokens": "`banned_token_ids`, `logit_bias` false",
    "bad_words": "`bad_words`",
    "no_repeat_ngram": "`no_repeat_ngram_size`",
    "min_tokens": "`min_tokens`",
}
PAPER = re.compile(
    r"\(([^()]*\b(?:19|20)\d\d\b[^()]*)\)|^([\w., '-]+ (?:19|20)\d\d) \(([^()]+)\)", re.MULTILINE
)


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def stages() -> str:
    """The stages in their own order, each with the parameter that turns it on."""
    from unspool.logits.orders import PIPELINE

    rows = [
        (str(number), stage.name, _parameter(stage.name), _file(stage))
        for number, stage in enumerate(PIPELINE, start=1)
    ]
    return table(("", "stage", "parameter", "file"), rows)


def methods() -> str:
    """Every stage, and what comes before the stages, with its paper and what it does, in one line."""
    from unspool.logits import choose
    from unspool.logits.contrast import Contrast
    from unspool.logits.guidance import Guidance
    from unspool.logits.orders import PIPELINE
    from unspool.logits.stage import Named

    rows = []
    named: tuple[Named, ...] = (Guidance(1.0), Contrast(0.0, 0.0), *PIPELINE)
    for stage in named:
        what, paper = _what_and_paper(stage, stage.name.replace("_", " "))
        rows.append((_parameter(stage.name), what, paper, _file(stage)))
    doc = inspect.cleandoc(choose.__doc__ or "")
    rows.append(
        ("`seed`", _sentence(doc), "Gumbel 1954; Maddison et al. 2014, arXiv 1411.0030", "`logits/choose.py`")
    )
    return table(("parameter", "method", "paper", "file"), rows)


def searches() -> str:
    """Every search of several hypotheses, with its papers and what it does, in one line."""
    from unspool.search.named import SEARCHES

    rows = []
    for name, (kind, _) in SEARCHES.items():
        doc = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "")
        papers = [" ".join((found[1] or found[0]).split()).rstrip(".") for found in PAPER.finditer(doc)]
        file = f"`{kind.__module__.removeprefix('unspool.').replace('.', '/')}.py`"
        rows.append((f"`{name}`", _sentence(PAPER.sub("", doc)), "; ".join(papers), file))
    return table(("search", "what", "paper", "file"), rows)


def _what_and_paper(stage: object, name: str) -> tuple[str, str]:
    """From the docstring of the stage's module, or of its class where a module has several."""
    module = sys.modules[type(stage).__module__]
    n_stages = sum(
        hasattr(held, "apply") and hasattr(held, "name")
        for held in vars(module).values()
        if inspect.isclass(held) and held.__module__ == module.__name__ and not inspect.isabstract(held)
    )
    own, whole = inspect.cleandoc(type(stage).__doc__ or ""), inspect.cleandoc(module.__doc__ or "")
    doc = own if n_stages > 1 else whole
    found = PAPER.search(doc) or PAPER.search(whole)
    paper = "" if found is None else found[1] or f"{found[2]}, {found[3]}"
    what = _sentence(PAPER.sub("", doc))
    if n_stages > 1:
        what = f"{name[:1].upper()}{name[1:]}: {what[:1].lower()}{what[1:]}"
    return what, " ".join(paper.split()).removesuffix("; no paper").rstrip(".")


def _sentence(doc: str) -> str:
    first = " ".join(doc.partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s+", first)[0].rstrip(".:")


def _parameter(stage: str) -> str:
    from unspool.param_conflicts import COMPANIONS, STAGES

    if stage in MASK_PARAMETERS:
        return MASK_PARAMETERS[stage]
    return f"`{(STAGES.get(stage) or COMPANIONS[stage])[0]}`"


def _file(stage: object) -> str:
    return f"`{type(stage).__module__.removeprefix('unspool.').replace('.', '/')}.py`"


def orders() -> str:
    """The named orders."""
    from unspool.param_conflicts import ORDERS

    rows = [(f"`{name}`", ", ".join(stage_names)) for name, stage_names in ORDERS.items()]
    return table(("order", "stages after the masks"), rows)


def conventions() -> str:
    """What each named order reads differently from unspool."""
    from unspool.conventions import CONVENTIONS, Conventions

    own = Conventions()
    rows = []
    for name, rules in CONVENTIONS.items():
        changed = [
            f"{field.name} = {getattr(rules, field.name)}".replace(" = True", "")
            for field in dataclasses.fields(rules)
            if getattr(rules, field.name) != getattr(own, field.name)
        ]
        rows.append((f"`{name}`", ", ".join(f"`{each}`" for each in changed) or "as described here"))
    return table(("order", "rules that differ"), rows)


def dialects() -> str:
    """What each engine calls a parameter, and its default where that is another."""
    from unspool.mappings import DIALECTS
    from unspool.mappings.dialect import ABSENT, OURS

    names: dict[str, dict[str, str]] = {name: {} for name in OURS}
    for dialect in DIALECTS.values():
        for ours, theirs in dialect.finish_names.items():
            names[ours][dialect.name] = f"`{theirs}`" if theirs else ""
        for each in dialect.fields:
            differs = each.default is not ABSENT and each.default != OURS[each.ours]
            default = "" if not differs else f" ({'no limit' if each.default is None else each.default})"
            names[each.ours].setdefault(dialect.name, f"`{each.theirs}`{default}")
    heads = ("parameter", *(dialect.name for dialect in DIALECTS.values()))
    rows = [
        (f"`{ours}`", *(theirs.get(head, "") for head in heads[1:]))
        for ours, theirs in names.items()
        if any(theirs.values())
    ]
    return table(heads, rows)


def profiles() -> str:
    """Every shipped profile."""
    from unspool.cli.param_words import shown
    from unspool.profiles.lookup import SHIPPED
    from unspool.profiles.needs import KINDS, described, listed
    from unspool.profiles.reader import read_profile

    rows = []
    for path in sorted(SHIPPED.glob("*.toml")):
        profile = read_profile(path, is_shipped=True)
        values = [f"`{name} = {shown(value)}`" for name, value in profile.values.items()]
        needs = [
            described(need)
            + (
                ""
                if KINDS[need.kind].is_there
                else f": {listed(KINDS[need.kind].commands)}"
                + ("; elsewhere it samples" if need.otherwise else "")
                if KINDS[need.kind].commands
                else "; until then it samples"
                if need.otherwise
                else " (not yet)"
            )
            for need in profile.needs
        ]
        rows.append((f"`{profile.name}`", profile.description, ", ".join(values), ", ".join(needs)))
    return table(("profile", "for", "parameters", "needs"), rows)


def parameters() -> str:
    """Every knob of decoding, from the docstring that states its meaning."""
    from unspool.cli.param_words import DEFAULTS, meanings

    if undocumented := set(DEFAULTS) ^ set(meanings()):
        raise SystemExit(f"error: the docstring and the fields of DecodingParams part on {undocumented}")
    rows = [(f"`{name}`", f"`{DEFAULTS[name]!r}`", text) for name, text in meanings().items()]
    return table(("parameter", "default", "meaning"), rows)
