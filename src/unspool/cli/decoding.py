"""How a command decodes: a profile, what was typed over it, and the parameters that come of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from unspool.errors import BadRequest, ParameterConflict, brief
from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from unspool.params import DecodingParams
    from unspool.profiles import Profile
    from unspool.search.base import Search

DEFAULT_PROFILE: Final = "default"
REPORTS: Final = ("logprobs", "prompt_logprobs", "trace")  # parameters
_OTHER_SEARCH: Final = "a search that draws, as sample and beam-sample do"


@dataclass(frozen=True, slots=True)
class Decoding:
    """A profile and the values over it. Make one with `of`, which checks them."""

    profile: Profile
    typed: Mapping[str, Any]  # parameter to value; these win
    params: DecodingParams  # the effective parameters
    gave_way: tuple[str, ...]  # parameters of the profile that what was typed rules out
    has: tuple[str, ...] = ()  # what profiles may need and the command sees to
    by_default: frozenset[str] = frozenset()  # of `typed`, what the command holds and nobody typed
    is_named: bool = False  # whether somebody named the profile

    @classmethod
    def of(
        cls,
        profile: str | None = None,
        typed: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        has: tuple[str, ...] = (),
    ) -> Decoding:
        """`defaults` hold where neither the profile nor what was typed says anything. Raises BadRequest."""
        from unspool.profiles import load_profile

        found, given = load_profile(DEFAULT_PROFILE if profile is None else profile), typed or {}
        left = {n: v for n, v in (defaults or {}).items() if n not in found.settings and n not in given}
        return cls._over(found, {**left, **given}, has, frozenset(left), profile is not None)

    @classmethod
    def _over(
        cls,
        profile: Profile,
        typed: Mapping[str, Any],
        has: tuple[str, ...],
        by_default: frozenset[str],
        is_named: bool,
    ) -> Decoding:
        from unspool.profiles import effective

        merged = effective(profile, typed, has)
        return cls(profile, dict(typed), merged.params, merged.gave_way, has, by_default, is_named)

    def _with(self, typed: Mapping[str, Any], by_default: frozenset[str] = frozenset()) -> Decoding:
        return self._over(self.profile, typed, self.has, by_default, self.is_named)

    def setting(self, **values: Any) -> Decoding:
        """The same with more values typed."""
        return self._with({**self.typed, **values}, self.by_default.difference(values))

    def for_search(self, search: Search | None) -> Decoding:
        """The same beside a search; None samples."""
        return self if search is None or search.draws else self._drawing_nothing()

    def _drawing_nothing(self) -> Decoding:
        """The same for a search that draws nothing.

        A profile that nobody chose says nothing to it, and of one that is meant for such a search what is
        about draws is for where it samples.
        """
        if self.is_default:
            silent = frozenset(self.profile.settings)
        elif self.needs("beam"):
            from unspool.search.settings import DRAWING

            silent = (DRAWING | {"seed"}).intersection(self.profile.settings)
        else:
            return self
        from unspool.params import DecodingParams

        plain = DecodingParams().to_dict()
        return self.setting(**{name: plain[name] for name in silent.difference(self.typed)})

    def searched_by(self, search: Search | None, *, also_samples: bool = False) -> Decoding:
        """The same beside a search, which gives all of it a meaning; `also_samples`: samples are drawn too.
        Raises BadRequest."""
        decoding = self.for_search(search)
        if search is None:
            return decoding
        params = decoding.params
        if also_samples or "seed" in self.by_default:
            params = params.replace(seed=None)
        with self.naming_profile(f"take another profile, or {_OTHER_SEARCH}"):
            search.check(params)
        return decoding

    def said(self, name: str) -> str:
        """A parameter with its value, and with the profile that it is of where nobody typed it."""
        held = getattr(self.params, name)
        value = f"{name}={held:g}" if isinstance(held, float) else f"{name}={brief(held)}"
        is_its = name in self.profile.settings and name not in self.typed
        return f"{value} of profile {self.profile_label}" if is_its else value

    @contextmanager
    def naming_profile(self, way_out: str) -> Iterator[None]:
        """A conflict over what nobody typed says whose value it is; `way_out` takes the place of its own."""
        try:
            yield
        except ParameterConflict as conflict:
            own = [n for n in conflict.names if n in self.profile.settings and n not in self.typed]
            if not own:
                raise
            raise conflict.ending(f"{own[0]} is of profile {self.profile_label}: {way_out}") from conflict

    def needs(self, kind: str) -> bool:
        return any(need.kind == kind for need in self.profile.needs)

    def without(self, name: str) -> Decoding:
        """The same without what was typed for one parameter: the profile's value again."""
        if name not in self.params.to_dict():
            return self.setting(**{name: None})  # raises, and names the nearest
        return self._with({k: v for k, v in self.typed.items() if k != name}, self.by_default - {name})

    def under(self, profile: str) -> Decoding:
        """What was typed over another profile."""
        typed = {name: value for name, value in self.typed.items() if name not in self.by_default}
        return Decoding.of(profile, typed, {name: self.typed[name] for name in self.by_default}, self.has)

    def with_params(self, params: DecodingParams) -> Decoding:
        """Exactly these parameters: what differs from the profile counts as typed."""
        own, wanted = self._with({}).params.to_dict(), params.to_dict()
        typed = {name: value for name, value in wanted.items() if value != own[name]}
        same = frozenset(name for name in self.by_default if wanted[name] == self.typed[name])
        if (decoding := self._with(typed, same.intersection(typed))).params == params:
            return decoding
        return self._with(wanted, same)

    @property
    def is_default(self) -> bool:
        return self.profile.name == DEFAULT_PROFILE

    @property
    def profile_label(self) -> str:
        """The profile as reports name it: shipped ones by name, others by their file."""
        return self.profile.name if self.profile.is_shipped else str(self.profile.path)

    @property
    def shown_profile(self) -> str:
        """The profile for a line of figures; empty where nobody chose one."""
        return self.profile_label if not (self.is_default and self.profile.is_shipped) else ""

    def need(self, kind: str) -> dict[str, Any]:
        """The settings of something that the profile needs; none where it does not."""
        found = [need.settings for need in self.profile.needs if need.kind == kind]
        return {name: setting.value for name, setting in found[0].items()} if found else {}

    def notes(self) -> list[str]:
        """What the user should know before the answer, a line each."""
        from unspool.profiles.needs import described, replaced, where

        notes = [
            f"profile {self.profile.name} is meant for {described(need)}, {where([need])}; it samples instead"
            for need in replaced(self.profile, self.has)
        ]
        if self.gave_way and not self.is_default:
            notes.append(
                f"beside what was typed, these of profile {self.profile.name} do not apply: "
                + ", ".join(self.gave_way)
            )
        if unused := self.params.unused():
            why = "at temperature 0" if self.params.is_greedy else "without the parameter they belong to,"
            notes.append(f"{why} these change nothing: {', '.join(unused)}")
        return notes


def refuse_reports(params: DecodingParams, names: tuple[str, ...], way_out: str) -> None:
    """Refuse parameters that ask for a report where none is printed. Raises BadRequest."""
    for name in names:
        asked = getattr(params, name)
        if asked is not None and asked is not False:  # 0 asks for one, too
            raise BadRequest(
                f"{name} asks for a report that is not printed here; {way_out}", code="no_report"
            )
