"""What a profile is: parameters with their reasons, and what it needs beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from unspool.params import DecodingParams


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and why it is that value; the reason is empty where the file gives none."""

    value: Any
    reason: str


@dataclass(frozen=True, slots=True)
class Need:
    """Something that parameters cannot say: a search, a schema. `needs.KINDS` knows them."""

    kind: str
    reason: str
    settings: Mapping[str, Setting]
    otherwise: str = ""  # "sample": without it, sample with the profile's parameters; empty: refuse


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile as its file has it. `params` makes decoding parameters of it."""

    name: str
    description: str
    settings: Mapping[str, Setting]  # parameter to value and reason, in the order of the file
    needs: tuple[Need, ...]
    path: Path
    is_shipped: bool

    @property
    def values(self) -> dict[str, Any]:
        """Its parameters alone, without what it needs beside them."""
        return {name: setting.value for name, setting in self.settings.items()}

    def params(self, **explicit: Any) -> DecodingParams:
        """Decoding parameters: the profile's, except where `explicit` has another. Raises BadRequest."""
        from unspool.profiles.effective import effective

        return effective(self, explicit).params
