"""From --verifier and its companions to a verifier."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from unspool.cli.text import checked
from unspool.errors import BadRequest, brief, named
from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from unspool.search.verifiers.base import Verifier

# Which verifiers an option is for, and the setting that it is there.
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "--tests": {"python-tests": "tests"},
    "--answer-regex": {"majority": "answers", "regex": "pattern"},
    "--weighted": {"majority": "weighted"},
    "--expect": {"arithmetic": "expected"},
    "--schema": {"json-schema": "schema"},
    "--source": {"citations": "sources"},
    "--url": {"http-reward": "url", "llm-judge": "base_url"},
}
_CONTINUE: Final = ("python-tests", "python-examples")  # those that have to know what the program begins with


@dataclass(frozen=True, slots=True)
class VerifierOptions:
    """What was typed."""

    name: str
    assignments: Sequence[str] = ()
    tests: str | None = None
    answer_regex: str | None = None
    weighted: bool = False
    expect: str | None = None
    schema: str | None = None
    source: Sequence[str] = ()
    url: str | None = None

    def make(self, *, continues_prompt: bool) -> Verifier:
        """The verifier; a program is read with the prompt before it where answers continue the prompt."""
        from unspool.search.verifiers.registry import find, make

        if self.name.partition(":")[2]:
            settings = self._settings()
            with self._naming():
                return make("function", function=_imported(self.name), **settings)
        maker = find(self.name)  # that there is one comes before what it is given
        settings = self._settings()
        if self.name in _CONTINUE:
            settings.setdefault("continues_prompt", continues_prompt)
        if self.name == "majority":
            with self._naming(pattern="answers"):
                _set_answers(settings)
        self._require(maker, settings)
        with self._naming():
            return make(self.name, **settings)

    @contextmanager
    def _naming(self, **others: str) -> Iterator[None]:
        """What is said of a setting names the option that gave it, and ends with a way out. `others` are what
        a part of the verifier calls a setting, which has another name here."""
        try:
            yield
        except BadRequest as error:
            name = str(error).partition(" ")[0]
            option = self._option(others.get(name, name))
            if error.code != "bad_verifier" or not option:
                raise
            rest = error.problem.removeprefix(named(name)).removeprefix(name)
            way_out = error.way_out or "leave it out for the usual one"
            raise BadRequest(f"{option}{rest}", way_out=way_out, code=error.code) from error

    def _option(self, setting: str) -> str:
        """What gave a setting; empty where nothing can have."""
        if setting in self._with():
            return f"--with {setting}"
        return next((option for option, of in SETTINGS.items() if of.get(self.name) == setting), "")

    def _with(self) -> dict[str, Any]:
        """What --with says. Raises BadRequest."""
        settings: dict[str, Any] = {}
        for text in self.assignments:
            name, sign, value = checked(text, "--with").partition("=")
            name = name.strip().replace("-", "_")
            if not sign or not name:
                raise BadRequest(
                    f"--with takes NAME=VALUE, got {text!r}; `unspool best --verifier list` has the names",
                    code="bad_verifier",
                )
            if name in settings:
                raise BadRequest(f"--with gives {name} twice; keep one of them", code="bad_verifier")
            settings[name] = _value(value)
        return settings

    def _require(self, maker: Callable[..., Verifier], settings: Mapping[str, Any]) -> None:
        """Raise BadRequest for an option without which there is nothing to judge by."""
        for option, wanted in SETTINGS.items():
            setting = wanted.get(self.name, "")
            declared = inspect.signature(maker).parameters.get(setting)
            if declared is not None and declared.default is declared.empty and setting not in settings:
                raise BadRequest(
                    f"--verifier {self.name} needs {option}; `unspool best --help` says what it takes",
                    code="bad_verifier",
                )

    def check(self, prompt: str, verifier: Verifier, *, is_prompt_piped: bool) -> None:
        """Raise, before answers are written, what the first of them would run into: a prompt that gives the
        verifier nothing to go by, nobody to ask, or no sandbox."""
        if self.name == "person" and (sys.stdin is None or is_prompt_piped):
            raise BadRequest(
                "--verifier person reads what a person says from standard input, "
                + ("where the prompt came from" if is_prompt_piped else "and there is none")
                + "; give the prompt as an argument, and run it at a terminal",
                code="no_person",
            )
        if self.name in _CONTINUE:
            from unspool.search.verifiers.sandbox.run import run

            how: Any = verifier
            run("", "assert True", limits=how.limits, allow_weak=how.allow_weak)  # or it raises
        if self.name != "python-examples":
            return
        from unspool.search.verifiers.python_tests import why_no_examples

        if (problem := why_no_examples(prompt)) is not None:
            raise BadRequest(
                f"{problem}; put some in, or give --verifier python-tests with --tests", code="no_examples"
            )

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        for option, value in self._given().items():
            wanted = SETTINGS[option]
            if self.name not in wanted:
                raise BadRequest(
                    f"{option} is for {' and '.join(wanted)}, not for {self.name}; leave it out",
                    code="bad_verifier",
                )
            settings[wanted[self.name]] = value
        given = self._with()
        if both := [name for name in given if name in settings]:
            option = next(o for o, wanted in SETTINGS.items() if wanted.get(self.name) == both[0])
            raise BadRequest(
                f"{option} and --with {both[0]}={brief(given[both[0]])} were both given; keep one",
                code="bad_verifier",
            )
        return settings | given

    def _given(self) -> dict[str, Any]:
        """Options that were typed, read."""
        given: dict[str, Any] = {}
        if self.tests is not None:
            given["--tests"] = _read(self.tests, "--tests")
        if self.answer_regex is not None:
            given["--answer-regex"] = checked(self.answer_regex, "--answer-regex")
        if self.weighted:
            given["--weighted"] = True
        if self.expect is not None:
            given["--expect"] = checked(self.expect, "--expect")
        if self.schema is not None:
            given["--schema"] = _json(_read(self.schema, "--schema"), self.schema)
        if self.source:
            given["--source"] = _sources(self.source)
        if self.url is not None:
            given["--url"] = checked(self.url, "--url")
        return given


def _set_answers(settings: dict[str, Any]) -> None:
    """What votes are for: what a pattern finds, or the number that each answer comes to."""
    from unspool.search.verifiers.arithmetic import Arithmetic
    from unspool.search.verifiers.regex import Regex

    pattern = settings.get("answers")
    settings["answers"] = Arithmetic() if pattern is None else Regex(pattern)


def _sources(texts: Sequence[str]) -> dict[str, str]:
    """FILE or LABEL=FILE; a file without a label gets its number, from 1."""
    sources: dict[str, str] = {}
    for number, text in enumerate(texts, start=1):
        label, sign, path = text.partition("=")
        if not sign or os.path.exists(text):
            label, path = str(number), text
        if label in sources:
            raise BadRequest(f"--source gives {label} twice; use another label", code="bad_verifier")
        sources[label] = _read(path, "--source")
    return sources


def _imported(name: str) -> Any:
    """MODULE:FUNCTION, looked for in the current folder too. Raises BadRequest, whatever the module does."""
    import importlib

    module, _, attribute = name.partition(":")
    folder = os.getcwd()  # the module may change it
    sys.path.insert(0, folder)
    try:
        value: Any = importlib.import_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
    except (Exception, SystemExit) as error:
        from unspool.search.verifiers.registry import BUILT_IN

        own = f"; settings of the verifier {module} are given with --with" if module in BUILT_IN else ""
        raise BadRequest(
            f"--verifier {name}: {type(error).__name__}: {brief(str(error))}; MODULE:FUNCTION is looked for "
            f"in the current folder and among what is installed{own}",
            code="unknown_verifier",
        ) from error
    finally:
        with suppress(ValueError):  # the module may have taken it out
            sys.path.remove(folder)
    if not callable(value):
        raise BadRequest(
            f"--verifier {name} must be a function of the prompt and the answer's text, got {brief(value)}; "
            "name one of the module",
            code="bad_verifier",
        )
    return value


def _read(path: str, option: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise BadRequest(f"{option}: {error.strerror}: {path}; name a file", code="bad_verifier") from None
    except UnicodeDecodeError:
        raise BadRequest(f"{option}: {path} is not valid UTF-8; convert it first", code="bad_text") from None


def _json(text: str, path: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{path} is no JSON: {brief(str(error))}", code="bad_verifier") from None


def _value(text: str) -> Any:
    """JSON where it is, else text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def print_verifiers() -> None:
    """Every verifier with its settings."""
    from unspool.cli.table import print_table
    from unspool.search.verifiers.registry import find, names

    rows = [("VERIFIER", "SETTINGS", "WHAT")]
    for name in names():
        maker = find(name)
        takes = ", ".join(p for p in inspect.signature(maker).parameters if not p.startswith("_"))
        rows.append((name, takes, " ".join((maker.__doc__ or "").split("\n\n")[0].split())))
    print_table(rows)
