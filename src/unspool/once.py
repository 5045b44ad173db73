"""Properties that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class once(Generic[_T]):
    """functools.cached_property without its lock, which up to Python 3.11 all instances share: a child that
    is forked while another thread computes would wait for it forever. Of two threads that compute at once,
    both get what the first found."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[_T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...
    def __get__(self, instance: object | None, owner: type) -> _T | once[_T]:
        if instance is None:
            return self
        found: _T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return found
