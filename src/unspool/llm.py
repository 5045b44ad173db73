"""The blocking front door: a model by name, text in, text out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from unspool.door import Door
from unspool.engine.prompt import Prompt, checked_params, is_batch, spread_params
from unspool.engine.stream import EventStream
from unspool.params import DecodingParams
from unspool.types import Completion, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from unspool.asking import Options
    from unspool.best import BestReport, Judged
    from unspool.saving import Keeping, SavedText
    from unspool.scoring import Score
    from unspool.search.best_of import BestOf


class LLM(Door):
    """A loaded model; its arguments are those of `Door`.

    Use it as a context manager, or `close` it. Any number of threads may use one LLM: their requests run side
    by side on one thread of the engine, and each gets the answer that it would get alone.
    """

    # Text

    @overload
    def generate(
        self,
        prompt: Prompt,
        params: DecodingParams | None = None,
        *,
        n: None = None,
        **how: Unpack[Options],
    ) -> Completion: ...
    @overload
    def generate(
        self, prompt: Prompt, params: DecodingParams | None = None, *, n: int, **how: Unpack[Options]
    ) -> list[Completion]: ...
    @overload
    def generate(
        self,
        prompt: list[str] | tuple[str, ...] | Sequence[Sequence[int]],
        params: DecodingParams | Sequence[DecodingParams] | None = None,
        *,
        n: None = None,
        **how: Unpack[Options],
    ) -> list[Completion]: ...
    @overload
    def generate(
        self,
        prompt: list[str] | tuple[str, ...] | Sequence[Sequence[int]],
        params: DecodingParams | Sequence[DecodingParams] | None = None,
        *,
        n: int,
        **how: Unpack[Options],
    ) -> list[list[Completion]]: ...

    def generate(
        self,
        prompt: Prompt | Sequence[Prompt],
        params: DecodingParams | Sequence[DecodingParams] | None = None,
        *,
        n: int | None = None,
        **how: Unpack[Options],
    ) -> Completion | list[Completion] | list[list[Completion]]:
        """Continue a prompt, or several at once: text, or token ids taken as they are.

        Text is encoded with the model's begin token where the model wants one; control tokens written in
        it are plain text. For several prompts `params` may be a list of the same length, and each
        answer is the one that the prompt would get alone. With n each prompt gets a list of n answers, which
        share what was read of it. The other options: `unspool.asking.Options`.

        Raises BadRequest and its kinds before anything runs. Ctrl-C ends the requests and leaves the model
        usable.
        """
        checked = How(n, **how)
        if not is_batch(prompt):
            request = self._request(cast(Prompt, prompt), checked_params(params), checked)
            (answers,) = self._complete([request])
            return answers[0] if n is None else answers
        prompts = cast(Sequence[Prompt], prompt)
        per_prompt = spread_params(params, len(prompts))
        requests = [self._request(p, q, checked) for p, q in zip(prompts, per_prompt, strict=True)]
        all_answers = self._complete(requests)
        return [answers[0] for answers in all_answers] if n is None else all_answers

    def stream(
        self, prompt: Prompt, params: DecodingParams | None = None, *, n: int = 1, **how: Unpack[Options]
    ) -> EventStream:
        """Like `generate` for one prompt, as events whose texts join to the answer, for each branch of n."""
        return EventStream(self._worker, self._request(prompt, checked_params(params), How(n, **how)))

    @overload
    def generate_all(
        self,
        prompts: Iterable[Prompt],
        params: DecodingParams | Iterable[DecodingParams] | None = None,
        *,
        n: None = None,
        progress: bool = False,
        **how: Unpack[Options],
    ) -> Iterator[Completion]: ...
    @overload
    def generate_all(
        self,
        prompts: Iterable[Prompt],
        params: DecodingParams | Iterable[DecodingParams] | None = None,
        *,
        n: int,
        progress: bool = False,
        **how: Unpack[Options],
    ) -> Iterator[list[Completion]]: ...

    def generate_all(
        self,
        prompts: Iterable[Prompt],
        params: DecodingParams | Iterable[DecodingParams] | None = None,
        *,
        n: int | None = None,
        progress: bool = False,
        **how: Unpack[Options],
    ) -> Iterator[Completion] | Iterator[list[Completion]]:
        """Answer prompts that come one by one, also those of an endless generator; answers in order.

        No more prompts are taken than are needed to keep the engine busy (twice Limits.n_tasks). `params`
        are for all, or come one by one too. `progress` draws a bar on standard error when that is a terminal.
        A prompt that is refused raises when its turn comes, and so does BadRequest where `params` come one by
        one and do not end with the prompts; leaving early cancels what is in flight.
        """
        from unspool.bulk import answers_in_order

        checked = How(n, **how)
        for_all = params is None or not isinstance(params, Iterable)
        answers = answers_in_order(
            self._worker,
            prompts,
            checked_params(params) if for_all else cast(Iterable[DecodingParams], params),
            lambda prompt, its_params: self._request(prompt, checked_params(its_params), checked),
            progress=progress,
        )
        return (each[0] for each in answers) if n is None else answers

    # Chat

    @overload
    def chat(
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
    def chat(
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

    def chat(
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
        """Answer a conversation, written out by the model's chat template.

        With `continue_final_message` the last message, the assistant's, is continued and not answered.
        `template_variables` go to the template as they are ({"enable_thinking": False} for some models).
        """
        request = chat_request_of(
            self.chat_template,
            messages,
            checked_params(params),
            How(n, **how),
            tools=tools,
            continue_final_message=continue_final_message,
            template_variables=template_variables,
        )
        (answers,) = self._complete([request])
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
    ) -> EventStream:
        """Like `chat`, as events whose texts join to the answer, for each branch of n."""
        request = chat_request_of(
            self.chat_template,
            messages,
            checked_params(params),
            How(n, **how),
            tools=tools,
            continue_final_message=continue_final_message,
            template_variables=template_variables,
        )
        return EventStream(self._worker, request)

    # The best of several answers

    def best(
        self,
        prompt: Prompt,
        spec: BestOf,
        params: DecodingParams | None = None,
        *,
        watch: Callable[[Judged], None] | None = None,
        **how: Unpack[Options],
    ) -> BestReport:
        """Write spec.n answers to a prompt, judge each as it ends, stop the rest when that is enough, rank.

        The verifier hears the prompt as text. `watch` hears of each answer when it is judged. What the report
        says depends on the request alone; the engine may have run ahead of it, by Limits.n_unread steps.
        """
        from unspool.best import run_best

        applied, checked = spec.params(checked_params(params)), how_of_best(spec, how)
        asked = text_of(self.tokenizer, prompt)
        stream = EventStream(self._worker, self._request(prompt, applied, checked))
        return run_best(stream, asked, spec, applied, watch, first_branch=checked.branch)

    def best_chat(
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
        from unspool.best import run_best

        applied, checked = spec.params(checked_params(params)), how_of_best(spec, how)
        request = chat_request_of(
            self.chat_template, messages, applied, checked, tools=tools, template_variables=template_variables
        )
        stream = EventStream(self._worker, request)
        return run_best(stream, last_user_text(messages), spec, applied, watch, first_branch=checked.branch)

    # Measures

    def score(self, text: Prompt, *, stride: int | None = None) -> Score:
        """How likely the model finds a text: log-probabilities of its tokens, their sum, perplexity.

        A text longer than the context is read in windows of it, `stride` tokens further each time (half a
        window when left out): a token is scored once, with at least window - stride tokens before it.
        """
        from unspool.scoring import windows_of

        windows = windows_of(self.tokenizer, text, self.context_length - 1, stride)
        return windows.score(self._worker.complete(windows.requests()))

    def perplexity(self, text: Prompt, *, stride: int | None = None) -> float:
        """`score(text).perplexity`: e to the mean of the negative log-probabilities of its tokens."""
        return self.score(text, stride=stride).perplexity

    # Sessions

    def save_session(self, path: str | Path, prompt: Prompt, **how: Unpack[Keeping]) -> SavedText:
        """Write the keys and values of a text to a file, so that a prompt that begins with it is not read
        again: by this model, tomorrow, in another process.

        The text is read first as far as it is not cached. The file is written whole or not at all. The
        options: `unspool.saving.Keeping`.
        """
        from unspool.saving import save_text

        return save_text(self, path, prompt, how)

    def save_chat_session(
        self,
        path: str | Path,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **how: Unpack[Keeping],
    ) -> SavedText:
        """`save_session` for a conversation, as `chat` writes it out: to the end of the assistant's message
        when that is the last one, and else up to where its answer would begin."""
        from unspool.saving import save_chat

        return save_chat(self, path, messages, how, tools=tools, template_variables=template_variables)

    def load_session(self, path: str | Path, *, cache_salt: str | None = None) -> SavedText:
        """Know the text of a session file, as if it had just been read: all of it or nothing.

        It stays until its pages are needed for others. Raises SessionFileError for a file that is damaged
        or another model's, CapacityError and ContextOverflow for a text that has no room here.
        """
        from unspool.saving import load

        return load(self, path, cache_salt)

    # Life

    def close(self) -> None:
        """End what is in flight, the engine's thread too, and free the memory; idempotent."""
        self._model.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, prompt: Prompt, params: DecodingParams, how: How) -> Request:
        return request_of(self.tokenizer, prompt, params, how)

    def _complete(self, requests: Sequence[Request]) -> list[list[Completion]]:
        heard = self._worker.complete(requests)
        return [completions_of(events, r.params) for events, r in zip(heard, requests, strict=True)]
