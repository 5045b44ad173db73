"""The blocking front door: a model by name, text in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.engine.prompt import Prompt, checked_ids, checked_params, is_batch, spread_params
from unspool.engine.rules import check_range
from unspool.engine.stats import EngineStats
from unspool.engine.stream import EventStream, Streams
from unspool.engine.token_table import TokenTable
from unspool.errors import BadRequest, TemplateError
from unspool.loading import check_settings, make_runner, open_model, room_for
from unspool.models.loader import LoadedModel
from unspool.params import DecodingParams
from unspool.runners.base import DEFAULT_PAGE_SIZE, Runner
from unspool.types import Completion, Request

if TYPE_CHECKING:
    from unspool.models.chat_template import ChatTemplate
    from unspool.models.tokenizer import Tokenizer

Message: TypeAlias = Mapping[str, Any]
Tool: TypeAlias = Mapping[str, Any]


class LLM:
    """A loaded model.

    model           a catalogue name (pulled when missing), a GGUF file, a safetensors folder, or hf:org/repo
    threads         processors to use; all that the process may run on when left out
    context_length  longest prompt and answer together, in tokens; the model's own when left out, or as
                    much of it as this machine's memory holds beside the weights
    kv_tokens       tokens that all requests in flight may hold; one whole context, and at least 8192,
                    when left out. Memory is taken as it is written, not at once
    kv_memory       the same in memory, instead of kv_tokens: bytes or "2GiB", or a part of what is free
                    beside the weights, 0.5 or "50%"
    page_size       tokens a page of the cache, a power of two; 16 to 128 for the native runner
    runner          "native" (C++) or "reference" (NumPy, slow, for comparison)
    limits          how much runs at once

    Use it as a context manager, or `close` it. Several threads may use one LLM; they take turns.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        threads: int | None = None,
        context_length: int | None = None,
        kv_tokens: int | None = None,
        kv_memory: int | float | str | None = None,
        page_size: int = DEFAULT_PAGE_SIZE,
        runner: str = "native",
        limits: Limits | None = None,
    ) -> None:
        check_settings(runner, threads, context_length, kv_tokens, page_size, kv_memory)
        self._loaded: LoadedModel | None = open_model(model)
        try:
            context_length, kv_tokens = room_for(
                self._loaded, context_length, kv_tokens, kv_memory, page_size
            )
            built = make_runner(runner, self._loaded, kv_tokens, page_size, threads)
            self._assemble(built, self._loaded.tokenizer, None, context_length, limits)
        except BaseException:
            self._loaded.close()
            raise

    @classmethod
    def from_parts(
        cls,
        runner: Runner,
        tokenizer: Tokenizer,
        *,
        chat_template: ChatTemplate | None = None,
        context_length: int | None = None,
        limits: Limits | None = None,
    ) -> LLM:
        """An LLM around a runner and a tokenizer of one's own; `close` closes the runner."""
        llm = cls.__new__(cls)
        llm._loaded = None
        llm._assemble(runner, tokenizer, chat_template, context_length, limits)
        return llm

    def _assemble(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        chat_template: ChatTemplate | None,
        context_length: int | None,
        limits: Limits | None,
    ) -> None:
        try:
            self._engine = Engine(runner, tokenizer, context_length=context_length, limits=limits)
        except BaseException:
            runner.close()
            raise
        self._streams = Streams(self._engine)
        self.tokenizer = tokenizer
        self._chat_template = chat_template

    @property
    def context_length(self) -> int:
        """Longest prompt and answer together, in tokens."""
        return self._engine.context_length

    @property
    def runner(self) -> Runner:
        """What computes the logits."""
        return self._engine.runner

    # Text

    @overload
    def generate(self, prompt: Prompt, params: DecodingParams | None = None) -> Completion: ...
    @overload
    def generate(
        self,
        prompt: list[str] | tuple[str, ...] | Sequence[Sequence[int]],
        params: DecodingParams | Sequence[DecodingParams] | None = None,
    ) -> list[Completion]: ...

    def generate(
        self,
        prompt: Prompt | Sequence[Prompt],
        params: DecodingParams | Sequence[DecodingParams] | None = None,
    ) -> Completion | list[Completion]:
        """Continue a prompt, or several at once: text, or token ids taken as they are.

        Text is encoded with the model's begin token where the model wants one; control tokens written in
        it are plain text. For several prompts `params` may be a list of the same length, and each
        answer is the one that the prompt would get alone. Raises BadRequest and its kinds before
        anything runs. Ctrl-C ends the requests and leaves the model usable.
        """
        if is_batch(prompt):
            prompts = cast(Sequence[Prompt], prompt)
            per_prompt = spread_params(params, len(prompts))
            return self._complete([self._request(p, q) for p, q in zip(prompts, per_prompt, strict=True)])
        return self._complete([self._request(cast(Prompt, prompt), checked_params(params))])[0]

    def stream(self, prompt: Prompt, params: DecodingParams | None = None) -> EventStream:
        """Like `generate` for one prompt, as events whose texts join to the answer."""
        return self._streams.open([self._request(prompt, checked_params(params))])[0]

    # Chat

    def chat(
        self,
        messages: Sequence[Message],
        params: DecodingParams | None = None,
        *,
        tools: Sequence[Tool] | None = None,
        continue_final_message: bool = False,
        template_variables: Mapping[str, Any] | None = None,
    ) -> Completion:
        """Answer a conversation, written out by the model's chat template.

        With `continue_final_message` the last message, the assistant's, is continued and not answered.
        `template_variables` go to the template as they are ({"enable_thinking": False} for some models).
        """
        request = self._chat_request(messages, params, tools, continue_final_message, template_variables)
        return self._complete([request])[0]

    def stream_chat(
        self,
        messages: Sequence[Message],
        params: DecodingParams | None = None,
        *,
        tools: Sequence[Tool] | None = None,
        continue_final_message: bool = False,
        template_variables: Mapping[str, Any] | None = None,
    ) -> EventStream:
        """Like `chat`, as events whose texts join to the answer."""
        request = self._chat_request(messages, params, tools, continue_final_message, template_variables)
        return self._streams.open([request])[0]

    @property
    def chat_template(self) -> ChatTemplate:
        """Raises TemplateError when the model has none."""
        if self._chat_template is None:
            if self._loaded is None:
                from unspool.models.chat_template import NO_TEMPLATE

                raise TemplateError(
                    "no chat template was given; use generate, or give one to from_parts", code=NO_TEMPLATE
                )
            self._chat_template = self._loaded.chat_template
        return self._chat_template

    @property
    def has_chat_template(self) -> bool:
        """Whether there is a chat template. One that does not parse is one, and `chat` says what is wrong."""
        from unspool.models.chat_template import NO_TEMPLATE

        try:
            return self.chat_template is not None
        except TemplateError as error:
            return error.code != NO_TEMPLATE

    # Tokens

    def tokenize(self, text: str, *, add_bos: bool = True, parse_special: bool = False) -> list[int]:
        """Token ids of a text, as `generate` would take it; `parse_special` reads control tokens in it."""
        if not isinstance(text, str):
            raise BadRequest(f"tokenize takes a string, got {type(text).__name__}", code="bad_prompt")
        return self.tokenizer.encode(text, add_bos=add_bos, parse_special=parse_special)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        """The text of token ids; control tokens add nothing to it."""
        return self.tokenizer.decode(checked_ids(token_ids))

    def siblings(self, token_id: int) -> tuple[int, ...]:
        """Tokens that write the same word as this one but for capitals and a space before it, ascending.

        banned_token_ids, logit_bias and the like hold for an id alone; these are the others to name.
        """
        (checked,) = checked_ids([token_id])
        check_range("siblings", [checked], self.tokenizer.vocab_size)
        return TokenTable.of(self.tokenizer).siblings(checked)

    # Life

    def stats(self) -> EngineStats:
        """What the engine is doing and has done, in numbers; any thread may ask at any time."""
        return self._engine.stats()

    def close(self) -> None:
        """End what is in flight and free the memory; idempotent."""
        self._streams.close()
        if self._loaded is not None:
            self._loaded.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, prompt: Prompt, params: DecodingParams) -> Request:
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else checked_ids(prompt)
        if not ids and self.tokenizer.bos_id is not None:
            ids = [self.tokenizer.bos_id]
        if not ids:
            raise BadRequest(
                "the prompt is empty and this model has no begin token to start from; give some text",
                code="empty_prompt",
            )
        return Request(tuple(ids), params)

    def _chat_request(
        self,
        messages: Sequence[Message],
        params: DecodingParams | None,
        tools: Sequence[Tool] | None,
        continue_final_message: bool,
        template_variables: Mapping[str, Any] | None,
    ) -> Request:
        checked = checked_params(params)
        # Control tokens that the template writes are tokens; those typed into messages stay text.
        options = {
            "tools": tools,
            "continue_final_message": continue_final_message,
            **_checked_variables(template_variables),
        }
        if not checked.penalty_exclude_template:
            return Request(tuple(self.chat_template.encode(messages, **options)), checked)
        ids, template_positions = self.chat_template.encode_with_positions(messages, **options)
        return Request(tuple(ids), checked, template_positions)

    def _complete(self, requests: Sequence[Request]) -> list[Completion]:
        streams = self._streams.open(requests)
        try:
            return [Completion.of(list(s), r.params) for s, r in zip(streams, requests, strict=True)]
        finally:
            for stream in streams:
                stream.close()


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
