"""What a caller may give as a prompt: text, or token ids; one, or several in a list."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from unspool.errors import BadRequest, brief
from unspool.params import DecodingParams

Prompt: TypeAlias = str | Sequence[int]
MAX_PRIORITY: Final = 2**31 - 1


def is_batch(prompt: Any) -> bool:
    """Whether this is a list of prompts, and not one: [] is a batch of none, [1, 2] one prompt of ids."""
    if isinstance(prompt, str):
        return False
    if not _has_items(prompt):
        raise BadRequest(
            f"a prompt is a string or a list of token ids, or several of them in a list; got {brief(prompt)}",
            code="bad_prompt",
        )
    return len(prompt) == 0 or isinstance(prompt[0], str) or _has_items(prompt[0])


def checked_ids(prompt: Any) -> list[int]:
    """A prompt of token ids as plain numbers; their range is the engine's affair."""
    if not _has_items(prompt):
        raise BadRequest(
            f"a prompt is a string or a list of token ids, got {brief(prompt)}", code="bad_prompt"
        )
    return [_whole_number(token_id) for token_id in prompt]


def each_of(prompts: Any) -> Iterator[Prompt]:
    """Prompts one after the other, where there are several; each is checked when its turn comes."""
    if not isinstance(prompts, (str, bytes, bytearray, memoryview, Mapping)):
        try:
            return iter(prompts)
        except TypeError:  # a class has no items, nor has an array of no dimensions
            pass
    raise BadRequest(
        f"generate_all takes several prompts, in a list or one after the other, got {brief(prompts)}; "
        "generate takes one",
        code="bad_prompt",
    )


def checked_params(params: Any) -> DecodingParams:
    """The parameters of one request; None is the defaults."""
    if params is None:
        return DecodingParams()
    if not isinstance(params, DecodingParams):
        raise BadRequest(
            f"params must be DecodingParams, got {type(params).__name__}; "
            "DecodingParams.from_dict makes them from a dictionary",
            code="bad_params",
        )
    return params


def checked_priority(priority: Any) -> int:
    """A whole number; higher runs first."""
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > MAX_PRIORITY:
        raise BadRequest(
            f"priority must be a whole number in [{-MAX_PRIORITY}, {MAX_PRIORITY}], got {priority!r}; higher "
            "runs first",
            code="bad_priority",
        )
    return priority


def spread_params(params: Any, n_prompts: int) -> list[DecodingParams]:
    """The parameters of each of n prompts, from one for all or one for each."""
    if isinstance(params, Sequence) and not isinstance(params, str):
        if len(params) != n_prompts:
            raise BadRequest(
                f"{n_prompts} prompts have {len(params)} params; give one for all or one for each",
                code="bad_params",
            )
        return [checked_params(each) for each in params]
    return [checked_params(params)] * n_prompts


def _has_items(value: Any) -> bool:
    """A list, a tuple, a NumPy array: it has a length and items by number. Bytes are meant as text."""
    if isinstance(value, (bytes, bytearray, memoryview, Mapping)):
        return False
    try:
        len(value)
    except TypeError:  # also a class, and an array of no dimensions
        return False
    return hasattr(value, "__getitem__")


def _whole_number(token_id: Any) -> int:
    try:
        if not isinstance(token_id, bool):
            return operator.index(token_id)
    except TypeError:  # also an array
        pass
    raise BadRequest(
        f"a prompt of token ids holds {brief(token_id)}, which is no whole number", code="bad_prompt"
    )
