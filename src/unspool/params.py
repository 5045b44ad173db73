"""DecodingParams: every knob of decoding, its range, its meaning, and the way out when it is wrong.

The canonical meaning of each is fixed in docs/decoding.md. Nothing is clamped and nothing is ignored: a
value out of range is a BadRequest that names the field, the value, the range and what to do instead, and
so are values that contradict each other. What is given and cannot matter is named by `unused`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal

from unspool import param_checks as checks
from unspool import param_conflicts
from unspool.errors import BadRequest, UnknownName, in_python
from unspool.light_dataclass import dataclass
from unspool.param_checks import Bias, Range
from unspool.param_dialects import Dialects
from unspool.unsupported import UNSUPPORTED

if TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_MAX_TOKENS: Final = 512

PenaltyScope = Literal["default", "all", "prompt", "output"]

RANGES: Final[Mapping[str, Range]] = {
    "temperature": Range(False, 0, 100, "0 is greedy, 1 leaves the model's distribution as it is"),
    "dynatemp_min": Range(False, 0, 100, "None turns it off", optional=True),
    "dynatemp_max": Range(False, 0, 100, "None turns it off", optional=True),
    "dynatemp_exponent": Range(False, 0, 100, "1 is a straight line", open_low=True),
    "edt_theta": Range(False, 0, 100, "0 turns it off"),
    "edt_base": Range(False, 0, 1, "the paper has 0.8", open_low=True, open_high=True),
    "smoothing_factor": Range(False, 0, 100, "0 turns it off"),
    "smoothing_curve": Range(False, 1, 3, "1 is a parabola, 3 a cubic"),
    "top_n_sigma": Range(False, 0, 100, "0 turns it off"),
    "top_k": Range(True, 0, None, "0 turns it off"),
    "top_p": Range(False, 0, 1, "1 turns it off; for greedy decoding set temperature=0", open_low=True),
    "min_p": Range(False, 0, 1, "0 turns it off"),
    "typical_p": Range(False, 0, 1, "1 turns it off", open_low=True),
    "top_h": Range(False, 0, 1, "1 turns it off", open_low=True),
    "epsilon_cutoff": Range(False, 0, 1, "0 turns it off", open_high=True),
    "eta_cutoff": Range(False, 0, 1, "0 turns it off", open_high=True),
    "top_a": Range(False, 0, 1, "0 turns it off"),
    "tfs_z": Range(False, 0, 1, "1 turns it off", open_low=True),
    "xtc_probability": Range(False, 0, 1, "0 turns it off"),
    "xtc_threshold": Range(False, 0, 1, "above 0.5 no two tokens reach it"),
    "mirostat": Range(True, 0, 2, "0 turns it off, 1 and 2 are its versions"),
    "mirostat_tau": Range(False, 0, 100, "it is a surprise in bits; 5 is usual", open_low=True),
    "mirostat_eta": Range(False, 0, 1, "it is a learning rate; 0.1 is usual", open_low=True),
    "adaptive_target": Range(False, 0, 1, "None turns it off", optional=True),
    "adaptive_decay": Range(False, 0, 1, "0 looks at the last token only", open_high=True),
    "repetition_penalty": Range(False, 0, 100, "1 turns it off", open_low=True),
    "frequency_penalty": Range(False, -2, 2, "0 turns it off"),
    "presence_penalty": Range(False, -2, 2, "0 turns it off"),
    "penalty_window": Range(True, 1, None, "None looks at the whole text", optional=True),
    "dry_multiplier": Range(False, 0, 100, "0 turns it off"),
    "dry_base": Range(False, 1, 100, "1.75 is usual"),
    "dry_allowed_length": Range(True, 1, None, "2 is usual"),
    "dry_window": Range(True, 1, None, "None looks at the whole text", optional=True),
    "no_repeat_ngram_size": Range(True, 0, None, "0 turns it off"),
    "guidance_scale": Range(False, 0, 100, "1 turns it off; 1.5 is the paper's"),
    "contrast_beta": Range(False, 0, 100, "0 turns it off; 0.5 is the paper's"),
    "contrast_alpha": Range(False, 0, 1, "0 leaves every token in; 0.1 is the paper's"),
    "min_tokens": Range(True, 0, None, "0 turns it off"),
    "logprobs": Range(True, 0, 1000, "None gives none, 0 the chosen token's alone", optional=True),
    "prompt_logprobs": Range(True, 0, 1000, "None gives none, 0 the prompt's tokens alone", optional=True),
    "seed": Range(True, 0, 2**64 - 1, "None draws a fresh seed and reports it", optional=True),
    "max_tokens": Range(
        True,
        1,
        None,
        "None writes to the end of the context" + in_python("; to count a prompt's tokens use LLM.tokenize"),
        optional=True,
    ),
    "deadline_s": Range(False, 0, None, "None sets no deadline", open_low=True, optional=True),
    "loop_min_count": Range(True, 0, None, "0 turns the loop detector off"),
    "loop_max_length": Range(True, 1, 4096, "it is the longest pattern looked for, in tokens"),
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DecodingParams(Dialects):
    """How to turn logits into text. Immutable and hashable; `replace` gives a changed copy.

    temperature     logits are divided by it; 0 takes the largest logit and needs no seed. [0, 100]
    dynatemp_min    temperature by entropy instead: this one when the model is sure. [0, 100]
    dynatemp_max    and this one when every candidate is equally likely; both or neither. [0, 100]
    dynatemp_exponent  how the share of the largest possible entropy bends between them. (0, 100]
    edt_theta       temperature * N^(theta / entropy) instead of temperature; 0 is off. [0, 100]
                    (Zhang et al. 2024, arXiv 2403.14541)
    edt_base        the N of edt_theta. (0, 1)
    smoothing_factor  bend logits by their square distance from the largest; 0 is off. [0, 100]
    smoothing_curve   and by its cube: 1 is a parabola, 3 a cubic. [1, 3]
    top_n_sigma     keep logits within so many standard deviations of the largest; 0 is off. [0, 100]
                    (Tang et al. 2024, arXiv 2411.07641)
    top_k           keep the k largest logits, exactly k; 0 is off. (Fan et al. 2018, arXiv 1805.04833)
    top_p           keep the fewest tokens, largest first, whose mass reaches p; 1 is off. (0, 1]
                    (Holtzman et al. 2020, arXiv 1904.09751)
    min_p           keep tokens with at least this share of the largest probability; 0 is off. [0, 1]
                    (Nguyen et al. 2024, arXiv 2407.01082)
    typical_p       keep the fewest tokens, closest to the entropy first, whose mass reaches it; 1 is off.
                    (0, 1] (Meister et al. 2022, arXiv 2202.00666)
    top_h           keep tokens, largest first, while they hold this share of the entropy; 1 is off. (0, 1]
                    (Baghaei Potraghloo et al. 2025, arXiv 2509.02510)
    epsilon_cutoff  drop tokens less likely than this; 0 is off. [0, 1) (Hewitt et al. 2022, arXiv 2210.15191)
    eta_cutoff      drop tokens less likely than min(eta, sqrt(eta) * exp(-entropy)); 0 is off. [0, 1)
                    (Hewitt et al. 2022, arXiv 2210.15191)
    top_a           drop tokens less likely than this times the square of the largest probability; 0 is off.
                    [0, 1]
    tfs_z           tail-free: cut where the curve of sorted probabilities has bent by this share; 1 is off.
                    (0, 1] (Phénix and Egan 2019)
    xtc_probability  how often to exclude the top choices: all but the least likely of those that reach the
                    threshold; 0 is off. [0, 1]
    xtc_threshold   the probability from which a token is a top choice. [0, 1]
    mirostat        1 or 2 steer the surprise of the text and replace truncation; 0 is off.
                    (Basu et al. 2020, arXiv 2007.14966)
    mirostat_tau    the surprise aimed at, in bits a token. (0, 100]
    mirostat_eta    how fast it is corrected. (0, 1]
    adaptive_target  the average probability of chosen tokens to aim at; None is off. [0, 1]
    adaptive_decay  how much of that average a token leaves in place. [0, 1)
    repetition_penalty  logits of tokens that have occurred: divided by it when positive, else multiplied;
                    1 is off. (0, 100] (Keskar et al. 2019, arXiv 1909.05858)
    frequency_penalty   taken off a token's logit for each time it occurred in the answer. [-2, 2]
    presence_penalty    taken off a token's logit once it has occurred in the answer. [-2, 2]
    penalty_scope   what these three look at: "default" is prompt and answer for repetition and the answer
                    for the others; "all", "prompt" and "output" hold for all three
    penalty_window  of that, the last so many tokens; None is the whole, in order="llama.cpp" the last 64
    penalty_exclude_ids       token ids that the three never touch
    penalty_exclude_template  the three do not count what the chat template wrote into the prompt
    dry_multiplier  take multiplier * base^(n - allowed) off the logit of a token that would make n tokens
                    repeat; 0 is off. [0, 100]
    dry_base        the base of that power. [1, 100]
    dry_allowed_length  repeats shorter than this cost nothing. At least 1
    dry_window      repeats are looked for in the last so many tokens; None is the whole text, in
                    order="llama.cpp" the last 64
    dry_breakers    texts that no repeat reaches across; 128 at most, of 64 characters
    no_repeat_ngram_size  no run of so many tokens occurs twice; 0 is off
    bad_words       texts that are never written, with or without a space before them; 4096 at most, of 256
                    characters
    banned_token_ids   token ids that are never chosen
    allowed_token_ids  the only token ids that may be chosen, ends of the text included; None is all
    logit_bias      added to the logits of token ids or texts, [-100, 100]; False bans the token
    min_tokens      write at least so many tokens: before, no end-of-sequence id is chosen, and no stop or
                    loop ends the writing (a deadline and max_tokens do); 0 is off
    guidance_scale  move the logits away from what the model says without the prompt, or with negative_prompt:
                    u + scale * (c - u), of log-probabilities; 1 is off, below 1 goes towards the negative
                    prompt. [0, 100] (Sanchez et al. 2023, arXiv 2306.17806)
    negative_prompt  the prompt to move away from, as text or token ids; None is the last token of the prompt
    contrast_beta   take the amateur's log-probabilities off: (1 + beta) * e - beta * a; 0 is off. Needs
                    LLM(..., amateur=NAME). [0, 100] (O'Brien and Lewis 2023, arXiv 2309.09117)
    contrast_alpha  of that, drop tokens with less than this share of the model's own largest probability.
                    [0, 1] (Li et al. 2022, arXiv 2210.15097)
    order           the order of penalties, bias, temperature and truncation: a list of their names, or
                    "unspool", "vllm", "llama.cpp" or "transformers", which also take that engine's rules;
                    a list that begins with one of these takes its rules and has its own order
    logprobs        report log-probabilities of each chosen token and of the k likeliest; None is off
    prompt_logprobs  the same for the prompt's tokens
    trace           report what each stage did to each token's candidates, and what a search of several
                    hypotheses kept and dropped
    seed            the same seed repeats the same tokens; None draws one and reports it. [0, 2**64)
    max_tokens      tokens to write at most; None writes to the end of the context. At least 1
    stop            a string or several: writing ends where the first of them is complete
    stop_regex      a regular expression or several: writing ends where the first match is complete. As in
                    Python's re, but for what cannot be followed while a text is written: references to
                    groups, looking ahead or behind, the end of the text
    stop_token_ids  token ids that end the writing, beside the model's own end-of-sequence ids
    ignore_eos      write on past the model's end-of-sequence ids
    include_stop    keep the stop string, or the id that ended the writing, in the result
    deadline_s      end the answer this many seconds after the request came, as it stands; None is off
    loop_min_count  end when the last tokens of the answer are one pattern so many times in a row; 0 is off,
                    else at least 2
    loop_max_length  the longest such pattern, in tokens
    """

    temperature: float = 1.0
    dynatemp_min: float | None = None
    dynatemp_max: float | None = None
    dynatemp_exponent: float = 1.0
    edt_theta: float = 0.0
    edt_base: float = 0.8
    smoothing_factor: float = 0.0
    smoothing_curve: float = 1.0
    top_n_sigma: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    top_h: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    top_a: float = 0.0
    tfs_z: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float | None = None
    adaptive_decay: float = 0.9
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_scope: PenaltyScope = "default"
    penalty_window: int | None = None
    penalty_exclude_ids: Sequence[int] = ()
    penalty_exclude_template: bool = False
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window: int | None = None
    dry_breakers: Sequence[str] = ("\n", ":", '"', "*")
    no_repeat_ngram_size: int = 0
    bad_words: Sequence[str] = ()
    banned_token_ids: Sequence[int] = ()
    allowed_token_ids: Sequence[int] | None = None
    logit_bias: Mapping[int | str, float | bool] | Sequence[Bias] = ()
    min_tokens: int = 0
    guidance_scale: float = 1.0
    negative_prompt: str | Sequence[int] | None = None
    contrast_beta: float = 0.0
    contrast_alpha: float = 0.1
    order: str | Sequence[str] = "unspool"
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    trace: bool = False
    seed: int | None = None
    max_tokens: int | None = DEFAULT_MAX_TOKENS
    stop: Sequence[str] = ()
    stop_regex: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    include_stop: bool = False
    deadline_s: float | None = None
    loop_min_count: int = 0
    loop_max_length: int = 64

    def __new__(cls, *_: Any, **values: Any) -> Self:
        _refuse_unknown(values)  # before the constructor, whose own words would name no way out
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            self._set(name, allowed.check(name, getattr(self, name)))
        for name in ("dry_breakers", "bad_words", "stop"):
            self._set(name, checks.texts(name, getattr(self, name)))
        self._set("stop_regex", checks.patterns("stop_regex", self.stop_regex))
        self._set("negative_prompt", checks.prompt("negative_prompt", self.negative_prompt))
        for name, way_out in _ID_LISTS.items():
            if name != "allowed_token_ids" or self.allowed_token_ids is not None:
                self._set(name, checks.token_ids(name, getattr(self, name), way_out))
        for name in ("penalty_exclude_template", "trace", "ignore_eos", "include_stop"):
            checks.flag(name, getattr(self, name))
        checks.one_of("penalty_scope", self.penalty_scope, ("default", "all", "prompt", "output"))
        self._set("logit_bias", checks.biases("logit_bias", self.logit_bias))
        self._set("order", param_conflicts.checked_order(self.order))
        param_conflicts.refuse(self)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # normalised once, before anyone else sees the object

    def __repr__(self) -> str:
        """The call that makes them: what differs from the defaults."""
        return f"DecodingParams({', '.join(f'{name}={getattr(self, name)!r}' for name in self._given())})"

    def _given(self) -> Iterator[str]:
        return (field.name for field in fields(self) if getattr(self, field.name) != _DEFAULTS[field.name])

    @property
    def is_greedy(self) -> bool:
        """Whether the largest logit is taken and no random number is drawn."""
        return self.temperature == 0

    @property
    def biases(self) -> tuple[Bias, ...]:
        """logit_bias as pairs, which is what every form of it has become."""
        assert isinstance(self.logit_bias, tuple)
        return self.logit_bias

    def unused(self) -> tuple[str, ...]:
        """Parameters that were given but cannot change a token, such as a seed at temperature 0."""
        return tuple(name for name in self._given() if not param_conflicts.matters(name, self))

    def replace(self, **changes: Any) -> DecodingParams:
        """A copy with some fields changed; checked like a new one."""
        _refuse_unknown(changes)
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `from_dict` reads them back."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _plain(value) for name, value in values.items()}

    @classmethod
    def from_profile(cls, profile: str | PathLike[str], **explicit: Any) -> DecodingParams:
        """A profile's parameters by its name or path; explicit ones win, and what they rule out gives way.

        A BadRequest where the profile needs more than parameters: see docs/decoding.md.
        """
        from unspool.profiles import load_profile

        return load_profile(profile).params(**explicit)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DecodingParams:
        """Parameters from names and values; an unknown name is a BadRequest that offers the nearest one."""
        if not isinstance(values, Mapping):
            raise BadRequest(f"parameters must be names with values, got {values!r}", code="bad_params")
        _refuse_unknown(values)
        return cls(**values)


_DEFAULTS: Final[dict[str, Any]] = {field.name: field.default for field in fields(DecodingParams)}

_ID_LISTS: Final[Mapping[str, str]] = {  # parameter to the way out for what is no id
    "stop_token_ids": "for text use stop",
    "banned_token_ids": "for text use bad_words",
    "allowed_token_ids": "None allows all",
    "penalty_exclude_ids": "find a text's ids with LLM.tokenize",
}


def _plain(value: object) -> object:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in names:
        if name in _DEFAULTS:
            continue
        if name in UNSUPPORTED:
            raise UnknownName(f"{name}: {UNSUPPORTED[name]}", code="not_supported")
        from difflib import get_close_matches

        near = get_close_matches(str(name).lower().replace("-", "_"), _DEFAULTS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known names are {', '.join(_DEFAULTS)}"
        raise UnknownName(f"there is no parameter {name!r}; {hint}", code="unknown_parameter")
