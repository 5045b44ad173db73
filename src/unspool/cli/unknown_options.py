"""What is said of an option that a command does not have, and that people know from somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from unspool.cli.param_words import DEFAULTS
from unspool.cli.typed import option
from unspool.profiles.needs import listed
from unspool.unsupported import UNSUPPORTED

_SAMPLES: Final = "--temperature 0 takes the likeliest token, and above 0 tokens are drawn"
_BEAM: Final = "beams are a search of their own: --search beam, with settings as in beam:width=4,alpha=0.6"
_OPTION: Final = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")  # in a sentence
# Names of other engines that are no parameter here, and what does the same.
_OTHERWISE: Final[Mapping[str, str]] = {
    "do_sample": _SAMPLES,
    "greedy": _SAMPLES,
    "num_return_sequences": "-n says how many answers there are",
    "best_of": "-n says how many answers there are, and `unspool best` judges them",
    "use_beam_search": _BEAM,
    "num_beams": _BEAM,
    "num_beam_groups": "groups are those of a search: --search diverse-beam:groups=2",
    "diversity_penalty": "it is a setting of a search: --search diverse-beam:strength=0.5",
    "length_penalty": _BEAM,
    "early_stopping": _BEAM,
    "force_words": "--must-contain TEXT, for each",
    "max_length": "--max-tokens N, of the answer alone",
    "ctx_size": "--context N",
    "max_model_len": "--context N",
}


def said_of(unknown: str, where: str, program: Any) -> str | None:
    """One line about an option of this name, given to the command `where`; None where nobody knows it, or
    what does the same is not there either."""
    name, commands = unknown.lstrip("-").replace("-", "_"), dict(_commands(program))
    here = commands.get(where.partition(" ")[2], set())
    if name in UNSUPPORTED and "--amateur" in here:
        return f"{unknown}: {UNSUPPORTED[name]} (--amateur MODEL, with --contrast beta=X for how much)"
    if name in _OTHERWISE and here.issuperset(_OPTION.findall(_OTHERWISE[name])):
        return f"there is no {unknown} here; {_OTHERWISE[name]}"
    if there := [path for path, options in commands.items() if unknown in options]:
        do = "has" if len(there) == 1 else "have"
        return f"`{where}` has no {unknown}; {listed(there)} {do} it; see `{where} --help`"
    if (ours := _ours(name)) is not None and option(ours) in here:
        return f"there is no {unknown} here; {option(ours)} is what it is called"
    return None


def _ours(name: str) -> str | None:
    """The parameter that another engine calls so."""
    from unspool.mappings import DIALECTS

    for dialect in DIALECTS.values():
        for field in dialect.fields:
            if name in (field.theirs, *field.aliases) and field.ours in DEFAULTS:
                return field.ours
    return None


def _commands(group: Any, path: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every command by its words, with its options."""
    for name, command in group.commands.items():
        where = f"{path} {name}".strip()
        if hasattr(command, "commands"):
            yield from _commands(command, where)
        else:
            yield where, {text for each in command.params for text in (*each.opts, *each.secondary_opts)}
