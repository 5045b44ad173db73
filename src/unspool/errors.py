"""The error tree. Each error is one line: what is wrong, the value, the range, the way out.

`code` is stable and machine readable; the message may improve. The command line prints
`error: <message>` and exits with 2 for a bad request and 1 for anything else of ours.

A setting of a call is written by `named`, because who reads the message gave it in one of two ways: `str` of
the error says it as Python does (kv_tokens=64), and `worded` by the command line's options (--kv 64).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

# Around the name of a setting, and around what is said to Python alone, in a message as it is raised.
_NAME, _ASIDE = "\x1f", "\x1e"
_NAMED: Final = re.compile(f"{_NAME}(\\w+)(?:=([^{_NAME}]*))?{_NAME}")
_SAID_ASIDE: Final = re.compile(f"{_ASIDE}([^{_ASIDE}]*){_ASIDE}")
_VALUES: Final = re.compile(r"\b(?:None|True|False)\b")
_NO_VALUE: Final = object()
_NO_VALUES: Final[Mapping[str, str]] = {}


def named(name: str, value: Any = _NO_VALUE) -> str:
    """The name of a setting as a message holds it, with its value or without."""
    return f"{_NAME}{name}{_NAME}" if value is _NO_VALUE else f"{_NAME}{name}={brief(value)}{_NAME}"


def as_written(text: str) -> str:
    """Text of a message whose None, True and False are written as who reads it writes them."""
    return _VALUES.sub(lambda found: named(found.group()), text)


def in_python(text: str) -> str:
    """What a message says to who calls from Python, and has no counterpart on the command line."""
    return f"{_ASIDE}{text}{_ASIDE}"


def brief(value: object) -> str:
    """A value as a message prints it: its repr on one line, never long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a whole number of more digits than Python writes out
        text = f"an {type(value).__name__} too long to write"
    return text if len(text) <= 60 else f"{text[:57]}..."


def reason(problem: Exception) -> str:
    """Why a file could not be read or written, as the system says it: without number and path."""
    return getattr(problem, "strerror", None) or str(problem)


def nearest(name: str, known: Iterable[str]) -> str:
    """The way out of a name that is not there: the nearest one that is, or all of them."""
    from difflib import get_close_matches

    names = list(known)
    near = get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"


class UnspoolError(Exception):
    """Base of every error that unspool raises on purpose."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, code: str | None = None) -> None:
        self._message = message
        super().__init__(_said(message, {}, {}, r"\1"))
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the constructor, whose arguments are not what `args` holds.
        return _error_again, (type(self), *self.args), self.__dict__

    def worded(self, options: Mapping[str, str], values: Mapping[str, str] = _NO_VALUES) -> str:
        """The message with settings named by the options that give them, and values as they are typed; others
        keep their names. An option that ends in = has its value right behind it."""
        return _said(self._message, options, values, "")


def _error_again(kind: type[UnspoolError], *args: Any) -> UnspoolError:
    return kind.__new__(kind, *args)


def _said(message: str, options: Mapping[str, str], values: Mapping[str, str], aside: str) -> str:
    def spelled(found: re.Match[str]) -> str:
        name, value = found.groups()
        option = options.get(name)
        if value is None:
            return values.get(name, name) if option is None else option + "..." * option.endswith("=")
        value = values.get(value, value)
        if option is None:
            return f"{name}={value}"
        return option + value if option.endswith("=") else f"{option} {value}"

    return _NAMED.sub(spelled, _SAID_ASIDE.sub(aside, message))


class BadRequest(UnspoolError):
    """The caller asked for something that has no meaning: a value out of range, an unknown name.

    `way_out` ends the message behind a semicolon. Who raises it apart from the problem lets others, who know
    more of where a value came from, put a better one in its place.
    """

    code = "bad_request"
    exit_code = 2

    def __init__(self, problem: str, *, way_out: str = "", code: str | None = None) -> None:
        super().__init__(f"{problem}; {way_out}" if way_out else problem, code=code)
        self.problem, self.way_out = problem, way_out  # as they were given: what `named` marks is marked


class ParameterConflict(BadRequest):
    """Decoding parameters that contradict each other; `names` are those that do."""

    code = "conflicting_parameters"

    def __init__(
        self, problem: str, names: tuple[str, ...], *, way_out: str = "", code: str | None = None
    ) -> None:
        super().__init__(problem, way_out=way_out, code=code)
        self.names = names

    def ending(self, way_out: str) -> ParameterConflict:
        """The same with another way out."""
        return ParameterConflict(self.problem, self.names, way_out=way_out, code=self.code)


class UnknownName(BadRequest, TypeError):
    """A parameter or option that does not exist. A TypeError too, as Python raises for unknown arguments."""

    code = "unknown_name"


class ContextOverflow(BadRequest):
    """The prompt, or the prompt and what was asked for, is longer than the model's context."""

    code = "context_overflow"


class ModelNotFound(BadRequest):
    """No such catalogue name, file or folder."""

    code = "model_not_found"


class ModelFileError(UnspoolError):
    """A weights or tokenizer file is truncated, corrupt or hostile. Names the file and the field."""

    code = "model_file"

    def __init__(self, path: str | Path, field: str, problem: str, *, code: str | None = None) -> None:
        super().__init__(f"{path}: {field}: {problem}", code=code)
        self.path = str(path)
        self.field = field


class SessionFileError(UnspoolError):
    """A session file is missing, damaged or another model's. Names the file and the field."""

    code = "session_file"

    def __init__(self, path: str | Path, field: str, problem: str, *, code: str | None = None) -> None:
        super().__init__(f"{path}: {field}: {problem}", code=code)
        self.path = str(path)
        self.field = field
        self.problem = problem


class UnsupportedModel(UnspoolError):
    """The file is well formed, but holds something this engine does not compute. Names it."""

    code = "unsupported_model"


class DownloadError(UnspoolError):
    """A model could not be fetched or did not match its checksum; the cache is unchanged."""

    code = "download"


class TemplateError(BadRequest):
    """A chat template is missing, does not parse, or refused the messages."""

    code = "chat_template"


class CapacityError(UnspoolError):
    """The KV cache has no room: the request can never fit, or it has no page left."""

    code = "capacity"


class NoCandidate(UnspoolError):
    """A row has no token that could be chosen: every logit is masked, or some are not numbers."""

    code = "no_candidate"


class MaskConflict(UnspoolError):
    """What a request allows, bans and forbids to repeat leaves no token. Names the parameters."""

    code = "mask_conflict"


class VerifierError(UnspoolError):
    """A verifier could not judge an answer: an endpoint is down, a sandbox is missing. Names it."""

    code = "verifier"
