"""From what a caller gives to requests: prompts, parameters, and how a request is to be run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from unspool.engine.prompt import Prompt, checked_ids, checked_priority
from unspool.engine.rules import check_range
from unspool.errors import BadRequest, UnknownName, brief, named
from unspool.light_dataclass import dataclass
from unspool.params import DecodingParams
from unspool.search.base import Search
from unspool.types import Completion, Event, Request

if TYPE_CHECKING:
    from typing_extensions import Self

    from unspool.models.chat_template import ChatTemplate
    from unspool.models.tokenizer import Tokenizer
    from unspool.search.best_of import BestOf

Message: TypeAlias = Mapping[str, Any]
Tool: TypeAlias = Mapping[str, Any]
_MOST: Final = 2**31 - 1
_N_BRANCHES: Final = 2**31  # far below the 32 bits that the number of a branch has in a draw


class Options(TypedDict, total=False):
    """How a request is run. Of these `branch` alone changes tokens.

    branch      the number of the first answer. Answer i draws random numbers of its own from (seed, i), so
                branch=i with the seed of a Completion writes that answer again, alone
    priority    requests of a higher priority run first
    cache_salt  requests with different salts never share what is cached, so that nobody can tell from
                the time it takes what others have asked
    use_cache   False: find nothing in the cache of prompts, and leave nothing there
    search      how answers are looked for: Beam, BeamSample, ConstrainedBeam and others; None
                samples. One with several answers wants n to say so; they come best first
    """

    branch: int
    priority: int
    cache_salt: str | None
    use_cache: bool
    search: Search | None


@dataclass(frozen=True, slots=True)
class How:
    """Options, checked."""

    n: int | None = None
    branch: int = 0
    priority: int = 0
    cache_salt: str | None = None
    use_cache: bool = True
    search: Search | None = None

    def __new__(cls, n: int | None = None, **options: Any) -> Self:
        for name in options:
            if name not in Options.__annotations__:
                known = ", ".join(["n", *Options.__annotations__])
                in_params = {field.name for field in fields(DecodingParams)}
                hint = f"write DecodingParams({name}=...)" if name in in_params else f"known are {known}"
                raise UnknownName(f"a request has no option {name!r}; {hint}", code="unknown_option")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        _check_number("n", self.n, 1, optional=True)
        _check_number("branch", self.branch, 0, _N_BRANCHES - (self.n or 1))
        checked_priority(self.priority)
        if self.cache_salt is not None and not isinstance(self.cache_salt, str):
            raise _refusal("cache_salt", self.cache_salt, "a string, or None to share with all who have none")
        if not isinstance(self.use_cache, bool):
            raise _refusal("use_cache", self.use_cache, "True or False")
        if self.search is not None:
            self._check_search(self.search)

    def _check_search(self, search: Search) -> None:
        if isinstance(search, type) or not isinstance(getattr(search, "is_ranked", None), bool):
            raise _refusal("search", search, "a search such as Beam(width=4), or None to sample")
        if search.n_answers != (self.n or 1):
            given = "no n" if self.n is None else f"n={self.n}"
            raise BadRequest(
                f"{type(search).__name__} has {search.n_answers} answers and {given} was given; "
                f"give n={search.n_answers}, or change its number of answers",
                code="bad_n",
            )

    def request(
        self, ids: Sequence[int], params: DecodingParams, positions: frozenset[int] = frozenset()
    ) -> Request:
        n = 1 if self.n is None else self.n
        return Request(
            tuple(ids),
            params,
            positions,
            n,
            self.priority,
            self.cache_salt,
            self.use_cache,
            self.branch,
            self.search,
        )


def how_of_best(spec: BestOf, options: Mapping[str, Any]) -> How:
    """How the answers that a spec judges are asked for."""
    if options.get("search") is not None:
        raise BadRequest(
            f"search={brief(options['search'])} stands beside the spec, which has a search of its own; write "
            "BestOf(search, ...)",
            code="bad_search",
        )
    return How(spec.n, **{**options, "search": spec.searched})


def request_of(tokenizer: Tokenizer, prompt: Prompt, params: DecodingParams, how: How) -> Request:
    """A prompt of text or token ids as a request."""
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else checked_ids(prompt)
    if not ids and tokenizer.bos_id is not None:
        ids = [tokenizer.bos_id]
    if not ids:
        raise BadRequest(
            "the prompt is empty and this model has no begin token to start from; give some text",
            code="empty_prompt",
        )
    return how.request(ids, params)


def chat_request_of(
    template: ChatTemplate,
    messages: Sequence[Message],
    params: DecodingParams,
    how: How,
    *,
    tools: Sequence[Tool] | None = None,
    continue_final_message: bool = False,
    template_variables: Mapping[str, Any] | None = None,
) -> Request:
    """A conversation as a request, written out by a chat template.

    Control tokens that the template writes are tokens; those typed into messages stay text.
    """
    options = {
        "tools": tools,
        "continue_final_message": continue_final_message,
        **_checked_variables(template_variables),
    }
    if not params.penalty_exclude_template:
        return how.request(template.encode(messages, **options), params)
    ids, positions = template.encode_with_positions(messages, **options)
    return how.request(ids, params, positions)


def text_of(tokenizer: Tokenizer, prompt: Prompt) -> str:
    """What a prompt asks, for who judges the answers."""
    if isinstance(prompt, str):
        return prompt
    ids = checked_ids(prompt)
    check_range("prompt", ids, tokenizer.vocab_size)
    return tokenizer.decode(ids)


def last_user_text(messages: Sequence[Message]) -> str:
    """What a conversation asks: the text of the user's last message, or nothing."""
    for message in reversed(messages):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            parts = content if isinstance(content, Sequence) else ()
            return "".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))
    return ""


def completions_of(events: Iterable[Event], params: DecodingParams) -> list[Completion]:
    """What all the events of a request add up to, by branch; raises the error of the first that has one."""
    of_branch: dict[int, list[Event]] = {}
    for event in events:
        of_branch.setdefault(event.branch, []).append(event)
    told = [of_branch[branch] for branch in sorted(of_branch)]
    for each in told:
        if each[-1].error is not None:
            raise each[-1].error
    return [Completion.of(each, params) for each in told]


def _checked_variables(variables: Any) -> Mapping[str, Any]:
    """Variables for the template under names of their own, not those that `chat` passes itself."""
    if variables is None:
        return {}
    if not isinstance(variables, Mapping) or not all(isinstance(name, str) for name in variables):
        raise BadRequest(
            f"template_variables must be names with values, got {variables!r}", code="bad_template_variables"
        )
    taken = sorted({"messages", "tools", "continue_final_message", "parse_special"} & set(variables))
    if taken:
        raise BadRequest(
            f"template_variables holds {taken[0]!r}, which is no variable of the template; take it out",
            code="bad_template_variables",
        )
    return variables


def _check_number(name: str, value: Any, least: int, most: int = _MOST, *, optional: bool = False) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _refusal(name, value, f"a whole number in [{least}, {most}]")


def _refusal(name: str, value: object, what: str) -> BadRequest:
    return BadRequest(f"{named(name)} must be {what}, got {value!r}", code=f"bad_{name}")
