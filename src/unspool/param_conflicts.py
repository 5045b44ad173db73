"""Which parameters contradict each other, and which cannot matter beside others.

A contradiction is refused. What merely has no effect (a seed at temperature 0) is allowed, so that a profile
can be changed by one value, and is named by `DecodingParams.unused`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from unspool.errors import BadRequest, ParameterConflict, brief

if TYPE_CHECKING:
    from unspool.params import DecodingParams

# The names of what `order` arranges: stage to the parameter that turns it on and the value that is off.
STAGES: Final[Mapping[str, tuple[str, Any]]] = {
    "repetition": ("repetition_penalty", 1),
    "frequency": ("frequency_penalty", 0),
    "presence": ("presence_penalty", 0),
    "dry": ("dry_multiplier", 0),
    "bias": ("logit_bias", ()),
    "temperature": ("temperature", 1),
    "dynatemp": ("dynatemp_min", None),
    "edt": ("edt_theta", 0),
    "smoothing": ("smoothing_factor", 0),
    "top_n_sigma": ("top_n_sigma", 0),
    "top_k": ("top_k", 0),
    "top_p": ("top_p", 1),
    "min_p": ("min_p", 0),
    "typical": ("typical_p", 1),
    "top_h": ("top_h", 1),
    "epsilon": ("epsilon_cutoff", 0),
    "eta": ("eta_cutoff", 0),
    "top_a": ("top_a", 0),
    "tfs": ("tfs_z", 1),
    "xtc": ("xtc_probability", 0),
    "mirostat": ("mirostat", 0),
    "adaptive": ("adaptive_target", None),
}
# What comes before the stages, at a place of its own: the logits of somebody who reads beside the branch are
# combined with its own (engine/companion.py).
COMPANIONS: Final[Mapping[str, tuple[str, Any]]] = {
    "guidance": ("guidance_scale", 1),
    "contrast": ("contrast_beta", 0),
}
TEMPERATURES: Final = ("temperature", "dynatemp", "edt", "smoothing")
TRUNCATION: Final = (
    "top_n_sigma", "top_k", "top_p", "min_p", "typical", "top_h", "epsilon", "eta", "top_a", "tfs", "xtc"
)  # fmt: skip
PENALTIES: Final = ("repetition", "frequency", "presence")

# A name that stands for several, side by side: "temperature" is whichever kind of it is asked for.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {"penalties": PENALTIES, "temperature": TEMPERATURES}

# unspool: what the text calls for, then what the user wants, then how bold to be, then what to leave out.
# The other engines' own orders; `logits.orders` has the rules that go with each.
ORDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "unspool": (*PENALTIES, "dry", "bias", *TEMPERATURES, *TRUNCATION, "mirostat", "adaptive"),
    "vllm": ("bias", *PENALTIES, "temperature", "min_p", "top_k", "top_p"),
    "llama.cpp": (
        "bias", *PENALTIES, "dry", "top_n_sigma", "top_k", "typical", "top_p", "min_p", "xtc", "temperature",
        "dynatemp", "mirostat", "adaptive",
    ),
    "transformers": (
        "bias", "repetition", "temperature", "top_h", "top_k", "top_p", "min_p", "typical", "epsilon", "eta"
    ),
}  # fmt: skip

# A parameter that only another one gives a meaning to: the stage that uses it.
_PART_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "dynatemp_exponent": ("dynatemp",),
    "edt_base": ("edt",),
    "smoothing_curve": ("smoothing",),
    "xtc_threshold": ("xtc",),
    "mirostat_tau": ("mirostat",),
    "mirostat_eta": ("mirostat",),
    "adaptive_decay": ("adaptive",),
    "penalty_scope": PENALTIES,
    "penalty_window": PENALTIES,
    "penalty_exclude_ids": PENALTIES,
    "penalty_exclude_template": PENALTIES,
    "negative_prompt": ("guidance",),
    "contrast_alpha": ("contrast",),
    "dry_base": ("dry",),
    "dry_allowed_length": ("dry",),
    "dry_window": ("dry",),
    "dry_breakers": ("dry",),
}
_DRAWING: Final = (*TEMPERATURES[1:], *TRUNCATION, "mirostat", "adaptive")  # of no use at temperature 0


def is_on(stage: str, params: DecodingParams) -> bool:
    """Whether the parameters ask for a stage at all; at temperature 0 it may still be skipped."""
    parameter, neutral = STAGES.get(stage) or COMPANIONS[stage]
    return bool(getattr(params, parameter) != neutral)


def stages_of(order: str | Sequence[str]) -> tuple[str, ...]:
    """The stages that an order names, groups written out."""
    if isinstance(order, str):
        return ORDERS[order]
    names = order[1:] if order and order[0] in ORDERS else order
    return tuple(stage for name in names for stage in GROUPS.get(name, (name,)))


def preset_of(order: str | Sequence[str]) -> str:
    """The preset by whose conventions an order is read: the one that it names, alone or before its stages."""
    first = order if isinstance(order, str) else next(iter(order), "unspool")
    return first if first in ORDERS else "unspool"


def checked_order(order: object) -> str | tuple[str, ...]:
    """A preset's name, or stages, each at most once, with a preset's name before them or without."""
    if isinstance(order, str):
        if order not in ORDERS:
            raise BadRequest(
                f"order must be one of {', '.join(map(repr, ORDERS))} or a list of stages, "
                f"got {brief(order)}",
                code="bad_order",
            )
        return order
    if not isinstance(order, Sequence) or isinstance(order, (bytes, Mapping)):
        raise BadRequest(f"order must be a name or a list of stages, got {brief(order)}", code="bad_order")
    names: list[str] = []
    for name in order:
        is_preset = isinstance(name, str) and name in ORDERS and not names
        if not is_preset and (not isinstance(name, str) or (name not in STAGES and name not in GROUPS)):
            raise BadRequest(
                f"order holds {brief(name)}; the stages are {', '.join(dict.fromkeys([*GROUPS, *STAGES]))}",
                code="bad_order",
            )
        if name in names:
            raise BadRequest(f"order names {name!r} twice; keep one of them", code="bad_order")
        names.append(name)
    for group, members in GROUPS.items():
        double = [name for name in members if name in names and name != group]
        if group in names and double:
            raise BadRequest(
                f"order names {double[0]!r} twice: {group!r} stands for it too; keep one", code="bad_order"
            )
    return tuple(names)


def refuse(params: DecodingParams) -> None:
    """Raise BadRequest for parameters that contradict each other."""
    if (params.dynatemp_min is None) != (params.dynatemp_max is None):
        raise _conflict("dynatemp_min and dynatemp_max go together", params, "dynatemp_min", "dynatemp_max")
    low, high = params.dynatemp_min, params.dynatemp_max
    if low is not None and high is not None and low > high:
        raise _conflict("dynatemp_min is above dynatemp_max", params, "dynatemp_min", "dynatemp_max")
    kinds = [stage for stage in TEMPERATURES if is_on(stage, params) and stage != "temperature"]
    if len(kinds) > 1:
        first, second = (STAGES[kind][0] for kind in kinds[:2])
        raise _conflict("a request has one kind of temperature", params, first, second, "keep one")
    if kinds and kinds != ["edt"] and params.temperature not in (0, 1):
        other = STAGES[kinds[0]][0]
        problem, way_out = f"{other} replaces temperature", "leave temperature at 1"
        raise _conflict(problem, params, "temperature", other, way_out)
    if params.mirostat and (cut := [s for s in (*TRUNCATION, "adaptive") if is_on(s, params)]):
        other = STAGES[cut[0]][0]
        raise _conflict("mirostat replaces every truncation", params, "mirostat", other, "keep one")
    if params.max_tokens is not None and params.min_tokens > params.max_tokens:
        raise _conflict("min_tokens is above max_tokens", params, "min_tokens", "max_tokens")
    if params.loop_min_count == 1:
        raise BadRequest(
            "loop_min_count must be 0 or at least 2, got 1; every token occurs once",
            code="bad_loop_min_count",
        )
    if params.allowed_token_ids == ():
        raise BadRequest(
            "allowed_token_ids is empty, so that nothing could be chosen; None allows all ids",
            code="bad_allowed_token_ids",
        )
    if params.allowed_token_ids is not None and set(params.allowed_token_ids) <= set(params.banned_token_ids):
        raise _conflict(
            "nothing that is allowed is not banned", params, "allowed_token_ids", "banned_token_ids"
        )
    named = stages_of(params.order)
    for stage, (parameter, _) in STAGES.items():
        if is_on(stage, params) and stage not in named and not (stage == "temperature" and params.is_greedy):
            raise ParameterConflict(
                f"{parameter} is {brief(getattr(params, parameter))} and order={brief(params.order)} leaves "
                f"{stage!r} out",
                (parameter, "order"),
                way_out=f"add it to the order, or leave {parameter} alone",
                code="bad_order",
            )


def matters(name: str, params: DecodingParams) -> bool:
    """Whether a parameter that was given can change anything beside the others."""
    if params.is_greedy and (name == "seed" or name in _WITHOUT_DRAWS):
        return False
    if name in _PART_OF:
        return any(is_on(stage, params) for stage in _PART_OF[name])
    return name != "loop_max_length" or params.loop_min_count > 0


_WITHOUT_DRAWS: Final = frozenset(
    [STAGES[stage][0] for stage in _DRAWING]
    + [part for part, stages in _PART_OF.items() if set(stages) <= set(_DRAWING)]
    + ["dynatemp_max"]
)


def _conflict(
    why: str, params: DecodingParams, first: str, second: str, way_out: str = ""
) -> ParameterConflict:
    values = " and ".join(f"{name}={brief(getattr(params, name))}" for name in (first, second))
    return ParameterConflict(f"{why}; got {values}", (first, second), way_out=way_out)
