"""The front door for asyncio: the same model, and nothing that blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from unspool.asking import (
    How,
    Message,
    Tool,
    chat_request_of,
    completions_of,
    how_of_best,
    last_user_text,
    request_of,
    text_of,
)
from unspool.async_bulk import awaited_in_order
from unspool.best import BestReport, BestRun, Judged
from unspool.door import Door
from unspool.engine.async_stream import AsyncEventStream
from unspool.engine.inbox import Gathered
from unspool.engine.prompt import Prompt, checked_params, is_batch, spread_params
from unspool.params import DecodingParams
from unspool.saving import SavedText, load, save_chat, save_text
from unspool.scoring import Score, windows_of
from unspool.search.best_of import BestOf
from unspool.types import Completion, Event, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from unspool.asking import Options
    from unspool.saving import Keeping


class AsyncLLM(Door):
    """A loaded model for asyncio; its arguments are those of `Door`.

    Loading blocks; `AsyncLLM.of(llm)` opens an asynchronous door to a model that is loaded. Requests run side
    by side on one thread of the engine, whatever loops and threads they come from, and each gets the answer
    that it would get alone. Cancelling a task that waits for an answer cancels the request.

    It has the methods of `LLM`, and their arguments. Those that wait there are awaited here; `stream` and
    `generate_all` are read by `async for`. It is closed by `aclose`, which is awaited because a step may have
    to end first, or by leaving an `async with` block, and not by `close`: the model is then closed, also for
    the `llm` that it was opened `of`.
    """

    # Text

    @overload
    async def generate(
        self,
        prompt: Prompt,
        params: DecodingParams | None = None,
        *,
        n: None = None,
        **how: Unpack[Options],
    ) -> Completion: ...
    @overload
    async def generate(
        self, prompt: Prompt, params: DecodingParams | None = None, *, n: int, **how: Unpack[Options]
    ) -> list[Completion]: ...
    @overload
    async def generate(
        self,
        prompt: list[str] | tuple[str, ...] | Sequence[Sequence[int]],
        params: DecodingParams | Sequence[DecodingParams] | None = None,
        *,
        n: None = None,
        **how: Unpack[Options],
    ) -> list[Completion]: ...
    @overload
    async def generate(
        self,
        prompt: list[str] | tuple[str, ...] | Sequence[Sequence[int]],
        params: DecodingParams | Sequence[DecodingParams] | None = None,
        *,
        n: int,
        **how: Unpack[Options],
    ) -> list[list[Completion]]: ...

    async def generate(
        self,
        prompt: Prompt | Sequence[Prompt],
        params: DecodingParams | Sequence[DecodingParams] | None = None,
        *,
        n: int | None = None,
        **how: Unpack[Options],
    ) -> Completion | list[Completion] | list[list[Completion]]:
        """Continue a prompt, or several at once: see LLM.generate."""
        checked = How(n, **how)
        if not is_batch(prompt):
            make = partial(self._request, cast(Prompt, prompt), checked_params(params), checked)
            (answers,) = await self._complete(lambda: [make()])
            return answers[0] if n is None else answers
        prompts = cast(Sequence[Prompt], prompt)
        pairs = list(zip(prompts, spread_params(params, len(prompts)), strict=True))
        all_answers = await self._complete(lambda: [self._request(p, q, checked) for p, q in pairs])
        return [answers[0] for answers in all_answers] if n is None else all_answers

    def stream(
        self, prompt: Prompt, params: DecodingParams | None = None, *, n: int = 1, **how: Unpack[Options]
    ) -> AsyncEventStream:
        """Like `generate` for one prompt, as events whose texts join to the answer, for each branch of n.

        The request begins with the first `async for` step, which also raises what is wrong with it.
        """
        make = partial(self._request, prompt, checked_params(params), How(n, **how))
        return AsyncEventStream(self._worker, make)

    @overload
    def generate_all(
        self,
        prompts: Iterable[Prompt] | AsyncIterable[Prompt],
        params: DecodingParams | Iterable[DecodingParams] | None = None,
        *,
        n: None = None,
        progress: bool = False,
        **how: Unpack[Options],
    ) -> AsyncGenerator[Completion, None]: ...
    @overload
    def generate_all(
        self,
        prompts: Iterable[Prompt] | AsyncIterable[Prompt],
        params: DecodingParams | Iterable[DecodingParams] | None = None,
        *,
        n: int,
        progress: bool = False,
        **how: Unpack[Options],
    ) -> AsyncGenerator[list[Completion], None]: ...

    def generate_all(
        self,
        prompts: Iterable[Prompt] | AsyncIterable[Prompt],
        params: DecodingParams | Iterable[DecodingParams] | None = None,
        *,
        n: int | None = None,
        progress: bool = False,
        **how: Unpack[Options],
    ) -> AsyncGenerator[Completion, None] | AsyncGenerator[list[Completion], None]:
        """Answer prompts that come one by one, for `async for`, answers in order: see LLM.generate_all.

        `prompts` may also be asynchronous; then answers come as they are there, however long the next prompt
        takes. Leaving early cancels what is in flight, a moment later; `aclose` does it at once, and
        `contextlib.aclosing` calls that. Raises BadRequest where `params` come one by one and do not end with
        the prompts, and what the prompts raise, each in its turn.
        """
        checked = How(n, **how)
        for_all = params is None or not isinstance(params, Iterable)

        async def answers_of(prompt: Prompt, its_params: DecodingParams) -> list[Completion]:
            make = partial(self._request, prompt, checked_params(its_params), checked)
            (answers,) = await self._complete(lambda: [make()])
            return answers

        async def answer_of(prompt: Prompt, its_params: DecodingParams) -> Completion:
            return (await answers_of(prompt, its_params))[0]

        answer: Callable[..., Coroutine[Any, Any, Any]] = answer_of if n is None else answers_of
        return awaited_in_order(
            prompts,
            checked_params(params) if for_all else cast(Iterable[DecodingParams], params),
            answer,
            2 * self._engine.limits.n_tasks,
            progress=progress,
        )

    # Chat

    @overload
    async def chat(
        self,
        messages: Sequence[Message],
        params: DecodingParams | None = None,
        *,
        n: None = None,
        tools: Sequence[Tool] | None = None,
        continue_final_message: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **how: Unpack[Options],
    ) -> Completion: ...
    @overload
    async def chat(
        self,
        messages: Sequence[Message],
        params: DecodingParams | None = None,
        *,
        n: int,
        tools: Sequence[Tool] | None = None,
        continue_final_message: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **how: Unpack[Options],
    ) -> list[Completion]: ...

    async def chat(
        self,
        messages: Sequence[Message],
        params: DecodingParams | None = None,
        *,
        n: int | None = None,
        tools: Sequence[Tool] | None = None,
        continue_final_message: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **how: Unpack[Options],
    ) -> Completion | list[Completion]:
        """Answer a conversation, written out by the model's chat template: see LLM.chat."""
        make = self._chat_request(
            messages, params, How(n, **how), tools, continue_final_message, template_variables
        )
        (answers,) = await self._complete(lambda: [make()])
        return answers[0] if n is None else answers

    def stream_chat(
        self,
        messages: Sequence[Message],
        params: DecodingParams | None = None,
        *,
        n: int = 1,
        tools: Sequence[Tool] | None = None,
        continue_final_message: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **how: Unpack[Options],
    ) -> AsyncEventStream:
        """Like `chat`, as events whose texts join to the answer, for each branch of n."""
        make = self._chat_request(
            messages, params, How(n, **how), tools, continue_final_message, template_variables
        )
        return AsyncEventStream(self._worker, make)

    # The best of several answers

    async def best(
        self,
        prompt: Prompt,
        spec: BestOf,
        params: DecodingParams | None = None,
        *,
        watch: Callable[[Judged], None] | None = None,
        **how: Unpack[Options],
    ) -> BestReport:
        """Write spec.n answers to a prompt, judge each as it ends, stop the rest when that is enough, rank:
        see LLM.best, whose report is the same.

        The verifier runs in another thread, one answer at a time; `watch` is called in the loop's own.
        Cancelling the task ends the request; a verdict that is being found is found to its end, and dropped.
        """
        applied, checked = spec.params(checked_params(params)), how_of_best(spec, how)
        asked = text_of(self.tokenizer, prompt)
        stream = AsyncEventStream(self._worker, partial(self._request, prompt, applied, checked))
        return await _best(stream, BestRun.of(asked, spec, applied, watch, checked.branch))

    async def best_chat(
        self,
        messages: Sequence[Message],
        spec: BestOf,
        params: DecodingParams | None = None,
        *,
        tools: Sequence[Tool] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        watch: Callable[[Judged], None] | None = None,
        **how: Unpack[Options],
    ) -> BestReport:
        """Like `best` for a conversation; the verifier hears the text of the user's last message."""
        applied, checked = spec.params(checked_params(params)), how_of_best(spec, how)
        make = self._chat_request(messages, applied, checked, tools, False, template_variables)
        stream = AsyncEventStream(self._worker, make)
        return await _best(stream, BestRun.of(last_user_text(messages), spec, applied, watch, checked.branch))

    # Measures

    async def score(self, text: Prompt, *, stride: int | None = None) -> Score:
        """How likely the model finds a text: see LLM.score."""
        windows = await asyncio.to_thread(windows_of, self.tokenizer, text, self.context_length - 1, stride)
        return windows.score(await self._run(windows.requests()))

    async def perplexity(self, text: Prompt, *, stride: int | None = None) -> float:
        """`score(text).perplexity`: e to the mean of the negative log-probabilities of its tokens."""
        return (await self.score(text, stride=stride)).perplexity

    # Sessions: in a thread; one that has begun goes on to its end, whatever happens to the task

    async def save_session(self, path: str | Path, prompt: Prompt, **how: Unpack[Keeping]) -> SavedText:
        """Write the keys and values of a text to a file: see LLM.save_session."""
        return await asyncio.to_thread(save_text, self, path, prompt, how)

    async def save_chat_session(
        self,
        path: str | Path,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **how: Unpack[Keeping],
    ) -> SavedText:
        """`save_session` for a conversation: see LLM.save_chat_session."""
        options: dict[str, Any] = {"tools": tools, "template_variables": template_variables}
        return await asyncio.to_thread(save_chat, self, path, messages, how, **options)

    async def load_session(self, path: str | Path, *, cache_salt: str | None = None) -> SavedText:
        """Know the text of a session file: see LLM.load_session."""
        return await asyncio.to_thread(load, self, path, cache_salt)

    # Life

    async def aclose(self) -> None:
        """End what is in flight, the engine's thread too, and free the memory; idempotent."""
        await asyncio.to_thread(self._model.close)

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _request(self, prompt: Prompt, params: DecodingParams, how: How) -> Request:
        return request_of(self.tokenizer, prompt, params, how)

    def _chat_request(
        self,
        messages: Sequence[Message],
        params: DecodingParams | None,
        how: How,
        tools: Sequence[Tool] | None,
        continue_final_message: bool,
        template_variables: Mapping[str, Any] | None,
    ) -> Callable[[], Request]:
        checked = checked_params(params)
        return lambda: chat_request_of(
            self.chat_template,
            messages,
            checked,
            how,
            tools=tools,
            continue_final_message=continue_final_message,
            template_variables=template_variables,
        )

    async def _complete(self, make: Callable[[], list[Request]]) -> list[list[Completion]]:
        requests = await asyncio.to_thread(make)  # a long text takes a while to become tokens
        heard = await self._run(requests)
        return [completions_of(events, r.params) for events, r in zip(heard, requests, strict=True)]

    async def _run(self, requests: Sequence[Request]) -> list[list[Event]]:
        """All events of each request, run side by side."""
        inboxes = [Gathered() for _ in requests]
        try:
            await asyncio.wrap_future(self._worker.submit_open(requests, inboxes))
            return [await asyncio.wrap_future(inbox.whole) for inbox in inboxes]
        except BaseException:
            self._worker.abandon(inboxes)
            raise


async def _best(stream: AsyncEventStream, run: BestRun) -> BestReport:
    """What `best.run_best` does, for events that are awaited."""
    try:
        async for event in stream:
            whole = run.hear(event)
            judged = None if whole is None else await asyncio.to_thread(run.judge, whole)
            if run.is_enough(judged):
                break
    finally:
        await stream.aclose()
    return run.report()
