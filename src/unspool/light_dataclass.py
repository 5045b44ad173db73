"""`dataclasses.dataclass` for a program whose start counts: the methods of a class are made when they are
first called.

The standard decorator writes and compiles up to six functions for a class, which takes half a millisecond.
Most of the classes that a start imports are never compared, hashed or shown, and many are not even made. What
can be done with a class and its values is the same: making, showing, comparing, hashing, replace, asdict,
fields, pickling, signatures, and what is refused. What it does not know, it does not take: classes without
slots, InitVar, `order` and the like. It makes up no docstring.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """The standard decorator, for classes with slots."""
        if cls is None:
            return lambda each: _light(each, **options)
        return _light(cls, **options)


def _light(
    cls: type,
    *,
    slots: bool,
    frozen: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    repr: bool = True,  # as the standard one calls it
) -> type:
    assert slots, "methods set what they set through slots"
    own = set(vars(cls))
    if vars(cls).get("__hash__") is None:  # what a class that says how it is compared has by itself
        own.discard("__hash__")
    docstring, cls.__doc__ = cls.__doc__, cls.__doc__ or ""  # for want of one a signature would be made
    inherits = any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:])
    made: Any = dataclasses.dataclass(
        init=False,
        repr=False,
        eq=False,
        slots=True,
        kw_only=kw_only,
        frozen=frozen and inherits,  # looks at whether those it inherits from are
    )(cls)
    said = made.__dataclass_params__
    said.init, said.repr, said.eq, said.frozen = True, repr, eq, frozen
    made.__doc__ = docstring
    _check_fields(made)
    later: dict[str, Callable[[Any], Callable[..., Any]]] = {
        "__init__": partial(_init, scope=getattr(sys.modules.get(cls.__module__), "__dict__", {}))
    }
    if repr:
        later["__repr__"] = _standard("__repr__")
    if eq:
        later["__eq__"] = _standard("__eq__")
    if eq and frozen:
        later["__hash__"] = _standard("__hash__")
    methods: dict[str, Any] = {name: _later(made, name, make) for name, make in later.items()}
    methods |= {"__signature__": _Signature(), **(_FROZEN if frozen else {})}
    if eq and not frozen:
        methods["__hash__"] = None
    for name in methods.keys() - own:
        setattr(made, name, methods[name])
    kept: type = made
    return kept


def _check_fields(cls: Any) -> None:
    """Raise TypeError for fields of which no `__init__` can be made."""
    with_default = None
    for field in vars(cls)["__dataclass_fields__"].values():
        if "InitVar" in str(field.type):
            raise TypeError(f"{cls.__name__}.{field.name}: InitVar is not known here")
    for field in dataclasses.fields(cls):
        if not field.init or field.kw_only:
            continue
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
            with_default = field.name
        elif with_default is not None:
            raise TypeError(f"non-default argument {field.name!r} follows default argument {with_default!r}")


def _later(cls: type, name: str, make: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    def resolve() -> Callable[..., Any]:
        made = make(cls)
        setattr(cls, name, made)
        return made

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return resolve()(self, *args, **kwargs)

    method.resolve = resolve  # type: ignore[attr-defined]
    return method


def _init(cls: Any, scope: Any) -> Callable[..., None]:
    """`__init__`, which goes by the slots: nothing else may set them. `scope` are the names of the class's
    module, which may be gone by now."""
    names: dict[str, Any] = {"_FACTORY": _FACTORY}
    parameters: dict[bool, list[str]] = {False: [], True: []}  # by whether they are for keywords only
    lines = []
    for field in dataclasses.fields(cls):
        name, value, parameter = field.name, field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = field.default_factory
            parameter += "=_FACTORY"
            value = f"_make_{name}() if {name} is _FACTORY else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            parameter += f"=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif not field.init:
            continue
        if field.init:
            parameters[bool(field.kw_only)].append(parameter)
        names[f"_set_{name}"] = getattr(cls, name).__set__
        lines.append(f"_set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    keywords = ["*", *parameters[True]] if parameters[True] else []
    head = ", ".join(["self", *parameters[False], *keywords])
    body = "\n  ".join(lines or ["pass"])
    made: dict[str, Any] = {}
    source = f"def make({', '.join(names)}):\n def __init__({head}):\n  {body}\n return __init__"
    exec(source, scope, made)
    init: Callable[..., None] = made["make"](**names)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in dataclasses.fields(cls) if field.init}
    init.__annotations__["return"] = None
    return init


def _standard(name: str) -> Callable[[Any], Callable[..., Any]]:
    """Of another class with the same fields, the method of that name."""

    def make(cls: Any) -> Callable[..., Any]:
        fields = {field.name: field for field in dataclasses.fields(cls)}
        types = {name: field.type for name, field in fields.items()}
        bare = type(cls.__name__, (), {**fields, "__annotations__": types, "__module__": __name__})
        method: Callable[..., Any] = vars(dataclasses.dataclass(init=False, frozen=True)(bare))[name]
        return method

    return make


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY: Final = _Factory()


class _Signature:
    """Has `__init__` made before `inspect.signature`, which asks for this first, looks at it: so types are
    named, or looked up, as it is told to.

    A class that has a `__new__` would have the signature of that, and does have that of `__init__`.
    """

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:  # of which another may be called, with another signature
            init = owner.__init__
            init = init.resolve() if hasattr(init, "resolve") else init
            new = vars(owner).get("__new__")
            if isinstance(new, staticmethod):
                new.__func__.__wrapped__ = init  # type: ignore[attr-defined]
        raise AttributeError("__signature__")


def _is_frozen(self: Any, name: str) -> bool:
    """A class that inherits, and is no dataclass itself, may have attributes of its own."""
    fields = "__dataclass_fields__"
    return fields in vars(type(self)) or name in getattr(type(self), fields)


def _set(self: Any, name: str, value: Any) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN: Final = {
    "__setattr__": _set,
    "__delattr__": _delete,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}
