"""From the text of an option, or of chat's /set, to the value of a decoding parameter.

Here only the form is read; the parameters themselves say what is wrong with a value, in the words that
Python users read too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from unspool.cli.decoding import Decoding
from unspool.cli.param_words import DEFAULTS, FLAGS, IDS, TEXTS
from unspool.cli.text import checked, number_or_text
from unspool.errors import BadRequest
from unspool.param_conflicts import GROUPS, STAGES
from unspool.params import RANGES

_STAGE_NAMES: Final = frozenset([*GROUPS, *STAGES])
NO_DEFAULTS: Final[Mapping[str, Any]] = {}
_YES_NO: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def read_value(name: str, text: str) -> Any:
    """One value as typed after /set NAME or --set NAME=. Lists may be JSON; `none` is no value."""
    text = checked(text, name)
    if name in TEXTS or name == "negative_prompt":
        # `/set stop 5` and `/set stop none` mean those texts; only a list or a quoted string is taken apart.
        value = _json(text)
        return value if isinstance(value, (list, str)) else text
    if name in IDS:
        return _ids(name, [text])
    if name == "logit_bias":
        return _biases([text])
    if name == "order":
        return _order(text)
    if name in FLAGS:
        return _YES_NO.get(text.lower(), text)
    if name in RANGES:
        return None if text.lower() == "none" else number_or_text(text)
    return text


def read_option(name: str, given: str | bool | Iterable[str]) -> Any:
    """What an option got: its text, a switch, or the texts of one that may be repeated."""
    if isinstance(given, bool):
        return given
    if isinstance(given, str):
        return read_value(name, given)
    texts = [checked(text, option(name)) for text in given]
    if name in IDS:
        return _ids(name, texts)
    return _biases(texts) if name == "logit_bias" else tuple(texts)


def read_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """The values of --set NAME=VALUE."""
    values: dict[str, Any] = {}
    for text in assignments:
        name, sign, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise BadRequest(
                f"--set takes NAME=VALUE, got {text!r}; `unspool params` lists the names", code="bad_set"
            )
        if name in values:
            raise BadRequest(f"--set gives {name} twice; keep one of them", code="bad_set")
        values[name] = read_value(name, value)
    return values


def decoding_of(
    given: Mapping[str, Any],
    leave_out: tuple[str, ...] = (),
    defaults: Mapping[str, Any] = NO_DEFAULTS,
    has: tuple[str, ...] = (),
) -> Decoding:
    """The options of a command by name, `profile` and `assignments` among them, as a Decoding; what was not
    typed is None, empty or not there. For the rest see `with_decoding_options`. Raises BadRequest."""
    typed = {
        name: read_option(name, value)
        for name in DEFAULTS
        if name not in leave_out and (value := given.get(name)) is not None and value != []
    }
    for name, value in read_assignments(given.get("assignments") or ()).items():
        if name in typed:
            raise BadRequest(f"{option(name)} and --set {name} were both given; keep one", code="bad_set")
        if name in leave_out:
            raise BadRequest(f"{name} is set by this command itself; leave it out", code="bad_set")
        typed[name] = value
    return Decoding.of(given.get("profile"), typed, defaults, has)


def option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _ids(name: str, texts: Iterable[str]) -> Any:
    """Ids as 1,2,3 or a JSON list, in one text or several."""
    ids: list[Any] = []
    for text in texts:
        if text.strip().lower() == "none":
            return None if name == "allowed_token_ids" else ()
        value = _json(text)
        ids += (
            value if isinstance(value, list) else [number_or_text(part.strip()) for part in text.split(",")]
        )
    return tuple(ids)


def _biases(texts: Iterable[str]) -> Any:
    pairs: list[Any] = []
    for text in texts:
        if text.strip().lower() == "none":
            return ()
        value = _json(text)
        if isinstance(value, Mapping):
            pairs += [(_token(key), bias) for key, bias in value.items()]
        elif isinstance(value, list):
            pairs += value
        else:
            pairs.append(_pair(text))
    return tuple(pairs)


def _pair(text: str) -> tuple[int | str, Any]:
    """ID=VALUE or TEXT=VALUE; the last sign counts, because a text may have one."""
    token, sign, value = text.rpartition("=")
    if not sign or not token:
        raise BadRequest(
            f"logit_bias takes ID=VALUE or TEXT=VALUE, got {text!r}; VALUE is a number, or false for a ban",
            code="bad_logit_bias",
        )
    return _token(token), False if value.lower() == "false" else number_or_text(value)


def _token(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _order(text: str) -> Any:
    value = _json(text)
    if isinstance(value, list):
        return value
    names = tuple(part.strip() for part in text.split(","))
    return names[0] if len(names) == 1 and names[0] not in _STAGE_NAMES else names


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
