"""The one Jinja environment in which chat templates run: what transformers gives them, and nothing to misuse.

A template comes with the model file, from a stranger. It sees plain JSON values and these additions to
Jinja: `raise_exception(message)`, `strftime_now(format)`, `tojson` that keeps characters as they are,
`break` and `continue`, and a `{% generation %}` block that only marks what the assistant wrote. It cannot
reach Python objects (Jinja's immutable sandbox), and it is metered (chat_limits.py): every loop turn, call
and filter looks at the time spent, and what can make a long string is asked for its size first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache, wraps
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from unspool.models.chat_limits import (
    BINOP_GUARDS,
    MAX_TEMPLATE_CHARACTERS,
    TemplateLimitError,
    guard_filter,
    guard_format,
    guard_method,
    listed,
    metering,
    spend,
    tick,
    weighed,
    weight,
)


class TemplateRefusedError(Exception):
    """The template called raise_exception."""


def compile_template(source: str) -> jinja2.Template:
    """Raises TemplateSyntaxError, TemplateLimitError, or what Python's compiler raises for absurd input."""
    if len(source) > MAX_TEMPLATE_CHARACTERS:
        raise TemplateLimitError(f"is longer than {MAX_TEMPLATE_CHARACTERS} characters")
    return _environment().from_string(source)


def run_template(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    """The rendered text. Raises whatever the template provokes; the caller makes it a typed error."""
    with metering():
        return template.render(variables)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols], finalize=weighed
    )
    environment.filters["tojson"] = _tojson
    environment.filters = {name: _metered(name, body) for name, body in environment.filters.items()}
    del environment.globals["lipsum"]
    environment.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        "namespace": _PublicNamespace,
        "dict": _DictMaker(),
    }
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own would write < as \\u003c, which no model was trained on."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: object) -> None:
    raise TemplateRefusedError(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


class _DictMaker:
    """`dict(a=1)` without handing out the type."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
        return dict.fromkeys(keys, value)


class _PublicNamespace(Namespace):
    """A namespace whose names cannot pose as Python's internals."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # so that a template may name an attribute "self"
        self, *rest = args
        for name in dict(*rest, **kwargs):
            _refuse_private(name)
        Namespace.__init__(self, *rest, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        Namespace.__setitem__(self, name, value)


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold {name!r}, which begins with an underscore")


class _GenerationTag(Extension):
    """{% generation %} ... {% endgeneration %}: renders its body, in a scope of its own."""

    tags = {"generation"}  # noqa: RUF012  # the base class declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Macro) -> str:
        return str(caller())


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        """Put a look at the meter into every loop, and bounded joining in place of every `~`."""
        for loop in list(source.find_all(nodes.For)):
            tick = nodes.Call(nodes.EnvironmentAttribute("tick"), [], [], None, None)
            loop.body.insert(0, nodes.ExprStmt(tick).set_lineno(loop.lineno))
        _replace_concat(source)
        return super()._generate(source, *args, **kwargs)

    def tick(self) -> None:
        tick()

    def join(self, *values: Any) -> str:
        spend(sum(map(weight, values)))
        return self.concat(map(str, values))

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        pieces = list(parts)
        spend(sum(map(len, pieces)))
        return "".join(pieces)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        BINOP_GUARDS[operator](left, right)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        tick()
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str | bytes | int | float):
            if __obj.__name__ == "join":
                args = tuple(map(listed, args))
            guard_method(__obj.__name__, owner, args, kwargs)
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, str | bytes):
            spend(len(result))
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        form: str = value.__self__
        guard_format(form)
        text_of = wrapped

        def formatted(*args: Any, **kwargs: Any) -> str:
            spend(len(form) + form.count("{") * weight((args, kwargs)))
            return text_of(*args, **kwargs)

        return formatted


def _replace_concat(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if not isinstance(child, nodes.Node):
                continue
            _replace_concat(child)
            if isinstance(child, nodes.Concat):
                joined = nodes.Call(nodes.EnvironmentAttribute("join"), child.nodes, [], None, None)
                joined.set_lineno(child.lineno)
                if isinstance(value, list):
                    value[index] = joined
                else:
                    setattr(node, field, joined)


def _metered(name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """The same filter, ticking, with its arguments looked at first. Keeps Jinja's marks on the function."""
    n_hidden = 1 if hasattr(body, "jinja_pass_arg") else 0  # the context or environment, passed first

    @wraps(body)
    def metered(*args: Any, **kwargs: Any) -> Any:
        tick()
        if name == "join":
            args = (*args[:n_hidden], *map(listed, args[n_hidden:]))
        guard_filter(name, args[n_hidden:], kwargs)
        result = body(*args, **kwargs)
        if isinstance(result, str):
            spend(len(result))
        return result

    return metered
