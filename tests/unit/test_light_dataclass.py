"""The light decorator, against the standard one: the same classes, made by both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, field
from dataclasses import dataclass as standard
from threading import Barrier
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import pytest

from unspool.light_dataclass import dataclass as light
from unspool.params import DecodingParams
from unspool.types import InterToken, Usage

T = TypeVar("T")
FROZEN = {"frozen": True, "slots": True}
OPTIONS = [
    FROZEN,
    {"slots": True},
    {**FROZEN, "kw_only": True},
    {**FROZEN, "eq": False},
    {**FROZEN, "repr": False},
    {"slots": True, "eq": False, "kw_only": True},
]


def classes(decorator: Callable[..., Any], **options: Any) -> dict[str, type]:
    @decorator(**options)
    class Point:
        """Of all kinds of fields."""

        kind: ClassVar[str] = "point"
        x: int
        y: float = 2.0
        tags: tuple[str, ...] = field(default_factory=lambda: ("a", "b"))
        hidden: int = field(default=7, repr=False, compare=False)
        named: str = field(default="n", kw_only=True)
        area: float = field(init=False, default=0.5)
        parts: list[int] = field(init=False, default_factory=list)

        @property
        def double(self) -> int:
            return 2 * self.x

    @decorator(**options)
    class Solid(Point):
        z: int = 3

        def __post_init__(self) -> None:
            if self.z < 0:
                raise ValueError("z is below 0")

    @decorator(**options)
    class Empty:
        pass

    @decorator(**options)
    class Own(Generic[T]):
        x: T

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    return {"Point": Point, "Solid": Solid, "Empty": Empty, "Own": Own}


def said(call: Callable[[], Any]) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error).partition("(")[0]


def is_refused(call: Callable[[], Any]) -> bool:
    try:
        call()
    except (AttributeError, TypeError):  # the standard one's own mistake, where there are no fields
        return True
    return False


MADE: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Point", (), {"x": 1}),
    ("Point", (), {"x": 1, "y": 5.5, "tags": ("c",), "hidden": 3, "named": "m"}),
    ("Point", (1,), {}),
    ("Point", (1, 2.5, ("c",), 3), {"named": "m"}),
    ("Point", (1, 2.5, ("c",), 3, "m"), {}),
    ("Point", (), {}),
    ("Point", (1,), {"area": 2}),
    ("Point", (1,), {"x": 2}),
    ("Solid", (), {"x": 1, "z": 4}),
    ("Solid", (), {"x": 1, "z": -4}),
    ("Empty", (), {}),
    ("Empty", (1,), {}),
    ("Own", (), {"x": 1}),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("name", "args", "kwargs"), MADE)
def test_it_makes_shows_compares_and_refuses_as_the_standard_one(
    options: dict[str, Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    def told(decorator: Callable[..., Any]) -> list[Any]:
        cls = classes(decorator, **options)[name]
        made = said(lambda: cls(*args, **kwargs))
        if isinstance(made, tuple):
            return [made]
        own = "own" if name == "Own" else ""
        return [
            said(lambda: repr(made) if options.get("repr", True) else own),
            said(lambda: made == cls(*args, **kwargs)),
            said(lambda: made == 3 or made != made),
            said(lambda: hash(made) == hash(cls(*args, **kwargs))),
            *(is_refused(lambda name=name: setattr(made, name, 9)) for name in ("x", "none_of_them")),
            is_refused(lambda: delattr(made, "x")),
            said(lambda: dataclasses.asdict(made)),
            said(lambda: dataclasses.replace(made) == made) if options.get("eq", True) else None,
            said(lambda: copy.deepcopy(made) == made) if options.get("eq", True) else None,
            [(f.name, f.init, f.kw_only) for f in dataclasses.fields(cls)],
            cls.__match_args__,  # type: ignore[attr-defined]
            cls.__doc__ if name == "Point" else None,
            {**get_type_hints(cls.__init__), "self": cls.__name__},
            hasattr(made, "__dict__"),
        ]

    assert told(light) == told(standard)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_its_signature_is_that_of_the_standard_one_before_and_after_the_first_call(
    options: dict[str, Any],
) -> None:
    for name in ("Point", "Solid", "Empty", "Own"):
        wanted = inspect.signature(classes(standard, **options)[name])
        cls = classes(light, **options)[name]
        parameters = inspect.signature(cls).parameters
        assert [(p.name, p.kind, p.annotation) for p in parameters.values()] == [
            (p.name, p.kind, p.annotation) for p in wanted.parameters.values()
        ]
        looked_up = inspect.signature(classes(standard, **options)[name], eval_str=True)
        for _ in range(2):
            assert str(inspect.signature(cls)) == str(wanted)
            assert str(inspect.signature(cls, eval_str=True)) == str(looked_up)
            cls(**{p.name: 1 for p in parameters.values()})


def test_types_of_a_signature_are_looked_up_where_the_class_is() -> None:
    def types_of(cls: type) -> dict[str, Any]:
        signature = inspect.signature(cls, eval_str=True)
        return {name: each.annotation for name, each in signature.parameters.items()}

    assert types_of(Usage)["inter_token"] is InterToken
    own = types_of(DecodingParams)  # it has a __new__
    assert own.keys() == {field.name for field in dataclasses.fields(DecodingParams)}
    assert own["temperature"] is float
    assert own["stop"] == Sequence[str]
    plain = inspect.signature(DecodingParams).parameters
    assert (plain["temperature"].annotation, plain["temperature"].default) == ("float", 1.0)
    assert {each.kind for each in plain.values()} == {inspect.Parameter.KEYWORD_ONLY}

    class Same(Usage):
        """Inherits it."""

    assert types_of(Same) == types_of(Usage)


@light(frozen=True, slots=True)
class Kept:
    x: int
    y: str = "a"


def test_values_are_pickled_and_found_in_sets() -> None:
    kept = Kept(3)
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert {kept, Kept(3), Kept(4)} == {Kept(4), Kept(3)}
    assert repr(kept) == "Kept(x=3, y='a')"


def test_what_it_does_not_know_it_does_not_take() -> None:
    with pytest.raises(TypeError, match="slots"):

        @light(frozen=True)
        class Plain:
            x: int

    with pytest.raises(TypeError, match="order"):

        @light(frozen=True, slots=True, order=True)
        class Ordered:
            x: int

    with pytest.raises(TypeError, match=r"Given\.x: InitVar is not known here"):

        @light(frozen=True, slots=True)
        class Given:
            x: InitVar[int]


def test_fields_of_which_no_init_can_be_made_are_refused_where_they_are_declared() -> None:
    for decorator in (light, standard):
        with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):

            @decorator(frozen=True, slots=True)
            class Mixed:
                x: int = 1
                y: int

    @light(frozen=True, slots=True)
    class Sound:
        x: int = 1
        y: int = field(kw_only=True)
        z: int = field(init=False)

    assert Sound(y=3).y == 3


def test_a_class_that_inherits_and_is_no_dataclass_has_attributes_of_its_own() -> None:
    class Named(Kept):
        def __init__(self, x: int) -> None:
            super().__init__(x)
            self.name = "n"

    named = Named(2)
    assert (named.x, named.name) == (2, "n")
    with pytest.raises(dataclasses.FrozenInstanceError):
        named.x = 3  # type: ignore[misc]
    assert list(inspect.signature(Named).parameters) == ["x"]


@pytest.mark.parametrize("base", [light, standard])
@pytest.mark.parametrize("child", [light, standard])
def test_classes_inherit_only_from_those_that_are_frozen_as_they_are(
    base: Callable[..., Any], child: Callable[..., Any]
) -> None:
    for frozen, inherits_frozen in ((True, True), (False, False), (True, False), (False, True)):

        @base(frozen=inherits_frozen, slots=True)
        class Base:
            x: int = 1

        def declare(base: Any = Base, frozen: bool = frozen) -> Any:
            @child(frozen=frozen, slots=True)
            class Child(base):  # type: ignore[misc]
                y: int = 2

            return Child

        if frozen == inherits_frozen:
            made = declare()
            assert (made(3, 4).x, made(3, 4).y, made(3, 4) == made(3, 4)) == (3, 4, True)
            assert made.__dataclass_params__.frozen is frozen
        else:
            with pytest.raises(TypeError, match="cannot inherit"):
                declare()


def test_what_is_called_has_the_signature_of_its_call() -> None:
    @light(frozen=True, slots=True)
    class Adds:
        n: int

        def __call__(self, to: int) -> int:
            return self.n + to

    assert list(inspect.signature(Adds(2)).parameters) == ["to"]
    assert list(inspect.signature(Adds).parameters) == ["n"]


def test_the_first_one_may_be_made_when_the_module_of_its_class_is_gone() -> None:
    gone = ModuleType("gone")
    sys.modules["gone"] = gone
    declared = "@light(frozen=True, slots=True)\nclass A:\n x: int"
    exec(declared, vars(gone) | {"light": light}, vars(gone))
    del sys.modules["gone"]
    assert repr(gone.A(3)) == "A(x=3)"


def test_threads_may_make_the_first_one_at_once() -> None:
    for _ in range(50):

        @light(frozen=True, slots=True)
        class Fresh:
            x: int
            y: tuple[int, ...] = ()

        barrier = Barrier(8)

        def make(i: int, cls: Any = Fresh, barrier: Barrier = barrier) -> Any:
            barrier.wait()
            return cls(i), repr(cls(i)), hash(cls(i)), cls(i) == cls(i)

        with ThreadPoolExecutor(8) as pool:
            for i, (made, shown, _, is_same) in enumerate(pool.map(make, range(8))):
                assert (made.x, is_same) == (i, True)
                assert shown.endswith(f"Fresh(x={i}, y=())")
