"""A plain command line of `unspool run`, read without the machinery of options.

What brings options their help, their panels and their errors takes longer to import than a small model to
load, and between a question and its answer nobody needs it. So a command line that has nothing but a prompt
and options with their values is read here, and everything else (--help, a mistake, an abbreviation, what
looks like either) is left to it. The table says only how many values an option takes; the rest is where it
always is. A test holds the two readings against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

# Options of `run` beside those of decoding: name -> parameter.
_VALUES: Final = {
    "--model": "model",
    "-m": "model",
    "--system": "system",
    "-n": "n",
    "--search": "search",
    "--amateur": "amateur",
    "--contrast": "contrast",
    "--threads": "threads",
    "--context": "context",
    "--kv": "kv",
    "--runner": "runner",
    "--weights": "weights",
    "--profile": "profile",
}
_REPEATABLE: Final = {"--must-contain": "must_contain", "--set": "assignments"}
_SWITCHES: Final = {"--raw": "raw", "--quiet": "quiet", "-q": "quiet", "--json": "as_json"}


def read(arguments: Sequence[str]) -> dict[str, Any] | None:
    """What was typed after `run`, by parameter; None where it is not plain."""
    values, repeatable, switches = _tables()
    given: dict[str, Any] = {}
    rest = list(reversed(arguments))
    while rest:
        name = rest.pop()
        if not name.startswith("-") or name == "-":
            if "prompt" in given:
                return None
            given["prompt"] = name
            continue
        value: str | None = None
        if name.startswith("--"):
            name, equals, after = name.partition("=")
            value = after if equals else None
        if name in switches and value is None:
            parameter, on = switches[name]
            if parameter in given:
                return None
            given[parameter] = on
            continue
        parameter = values.get(name) or repeatable.get(name, "")
        if value is None:
            value = rest.pop() if rest else "-"
            if value.startswith("-"):  # a value, or a value that was forgotten
                return None
        if name in repeatable:
            given.setdefault(parameter, []).append(value)
        elif name in values and parameter not in given:
            given[parameter] = value
        else:
            return None
    return given


def _tables() -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, bool]]]:
    from unspool.cli.param_words import DEFAULTS, FLAGS, IDS, TEXTS
    from unspool.cli.typed import option

    values, repeatable = dict(_VALUES), dict(_REPEATABLE)
    switches = {name: (parameter, True) for name, parameter in _SWITCHES.items()}
    for parameter in DEFAULTS:
        name = option(parameter)
        if parameter in FLAGS:
            switches[name], switches[f"--no-{name[2:]}"] = (parameter, True), (parameter, False)
        elif parameter in TEXTS or parameter in IDS or parameter == "logit_bias":
            repeatable[name] = parameter
        else:
            values[name] = parameter
    return values, repeatable, switches


def run(given: dict[str, Any], arguments: Sequence[str]) -> int:
    """Answer what `read` understood of a command line; the exit code."""
    from unspool.cli import border
    from unspool.cli.json_out import Ending

    return border.run(lambda: _answer(given), Ending.of(arguments))


def _answer(given: dict[str, Any]) -> None:
    from unspool.cli.answer import NEEDS, answer
    from unspool.cli.model_options import gathered
    from unspool.cli.param_words import DEFAULTS
    from unspool.cli.typed import decoding_of

    how = {name: given[name] for name in ("profile", "assignments", *DEFAULTS) if name in given}
    asked = {name: value for name, value in given.items() if name not in how}
    answer(**gathered({**asked, "decoding": decoding_of(how, has=NEEDS)}))
