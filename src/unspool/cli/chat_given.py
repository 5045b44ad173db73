"""What the command line of a chat said: it wins over a file, until the chat itself says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from unspool.cli.answer import spelled
from unspool.cli.param_words import shown
from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from typing_extensions import Self

    from unspool.cli.decoding import Decoding
    from unspool.params import DecodingParams
    from unspool.search.base import Search


@dataclass(frozen=True, slots=True)
class Given:
    """Nothing, where nobody said anything."""

    typed: Mapping[str, Any] = field(default_factory=dict)  # parameter to value
    profile: Decoding | None = None  # with a profile that was named, which has all parameters
    search: Search | None = None
    is_search: bool = False  # whether one was named; None samples
    system: str | None = None

    @classmethod
    def of(cls, decoding: Decoding, search: Search | None, is_search: bool, system: str | None) -> Self:
        return cls(decoding.typed, decoding if decoding.is_named else None, search, is_search, system)

    def over(self, of_file: Decoding) -> Decoding:
        """The parameters of a file, with those that were typed over them or a whole profile in their place.
        Raises BadRequest."""
        return of_file.setting(**self.typed) if self.profile is None else self.profile

    def without(self, name: str) -> Given:
        """The same after /set has said what a parameter is."""
        typed = {each: value for each, value in self.typed.items() if each != name}
        return replace(self, typed=typed, profile=self.profile and self.profile.without(name))

    def without_profile(self) -> Given:
        """The same after /profile has named another."""
        return replace(self, profile=None)

    def without_system(self) -> Given:
        return replace(self, system=None)


def overruled(given: Given, params: DecodingParams, of_file: DecodingParams) -> list[str]:
    """What of a file's parameters gave way, each with what holds in its place."""
    if given.profile is not None:
        label = given.profile.profile_label
        return [] if params == of_file else [f"profile {label} (not its parameters)"]
    now, was = params.to_dict(), of_file.to_dict()
    return [f"{name} = {shown(now[name])} (not {shown(was[name])})" for name in now if now[name] != was[name]]


def named(search: Search | None) -> str:
    """A search as --search takes it; None samples."""
    return "sample" if search is None else spelled(search)
