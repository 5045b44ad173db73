"""What is behind every front door: a loaded model, and how the thread that runs it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.engine.companion import AMATEUR
from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.engine.prompt import checked_ids
from unspool.engine.rules import check_range
from unspool.engine.stats import EngineStats
from unspool.engine.token_table import TokenTable
from unspool.engine.worker import Worker
from unspool.errors import BadRequest, TemplateError
from unspool.loading import Loaded, load
from unspool.models.loader import LoadedModel
from unspool.runners.base import DEFAULT_PAGE_SIZE, Runner
from unspool.timeline import Timeline

if TYPE_CHECKING:
    from typing_extensions import Self

    from unspool.models.chat_template import ChatTemplate
    from unspool.models.tokenizer import Tokenizer


class OpenModel:
    """A model that is loaded, its engine, and the engine's worker. Any number of front doors may share it."""

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        loaded: LoadedModel | None,
        chat_template: ChatTemplate | None,
        context_length: int | None,
        limits: Limits | None,
        amateur: tuple[Runner, LoadedModel | None] | None = None,
    ) -> None:
        second = None if amateur is None else amateur[0]
        try:
            self.engine = Engine(
                runner, tokenizer, context_length=context_length, limits=limits, amateur=second
            )
            self._timeline = Timeline.wanted(self.engine, runner)
        except BaseException:
            runner.close()
            if second is not None:
                second.close()
            raise
        self.worker = Worker(self.engine)
        self.tokenizer = tokenizer
        self._loaded = loaded
        self._amateur = None if amateur is None else amateur[1]
        self._chat_template = chat_template

    @classmethod
    def of(cls, loaded: Loaded, limits: Limits | None) -> OpenModel:
        """With the engine; where that cannot be built, what was loaded is closed."""
        try:
            tokenizer = loaded.model.tokenizer
        except BaseException:
            loaded.close()
            raise
        try:
            return cls(
                loaded.runner, tokenizer, loaded.model, None, loaded.context_length, limits, loaded.amateur
            )
        except BaseException:  # it has closed the runners
            loaded.model.close()
            if loaded.amateur is not None:
                loaded.amateur[1].close()
            raise

    @property
    def source(self) -> str | None:
        """The name of the file or folder that it was loaded from."""
        return None if self._loaded is None else Path(self._loaded.path).name

    @property
    def chat_template(self) -> ChatTemplate:
        if self._chat_template is None:
            if self._loaded is None:
                from unspool.models.chat_template import NO_TEMPLATE

                raise TemplateError(
                    "no chat template was given; use generate, or give one to from_parts", code=NO_TEMPLATE
                )
            self._chat_template = self._loaded.chat_template
        return self._chat_template

    def close(self) -> None:
        self.worker.close()
        for loaded in (self._loaded, self._amateur):
            if loaded is not None:
                loaded.close()
        if self._timeline is not None:
            self._timeline.write()


class Door:
    """A loaded model.

    model           a catalogue name (pulled when missing), a GGUF file, a safetensors folder, or hf:org/repo
    threads         processors to use; all that the process may run on when left out
    context_length  longest prompt and answer together, in tokens; the model's own when left out, or as
                    much of it as this machine's memory holds beside the weights
    kv_tokens       tokens that all requests in flight may hold; when left out one whole context, and at least
                    16384 where this machine's memory holds them. It is taken as it is written, not at once
    kv_memory       the same in memory, instead of kv_tokens: bytes or "2GiB", or a part of what is free
                    beside the weights, 0.5 or "50%"
    page_size       tokens a page of the cache, a power of two; 16 to 128 for the native runner
    runner          "native" (C++) or "reference" (NumPy, slow, for comparison)
    limits          how much runs at once
    amateur         a smaller model of the same tokens, for requests with contrast_beta; given as `model` is.
                    A page of the cache then takes the memory of both
    weights         "q8" or "q4": quantize a model in F32, F16 or BF16 as it is loaded, to 8 bits a weight
                    or to 4 (embedding and output 8), each block by least squares; as stored when left out
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
        amateur: str | Path | None = None,
        weights: str | None = None,
    ) -> None:
        loaded = load(
            model,
            threads=threads,
            context_length=context_length,
            kv_tokens=kv_tokens,
            kv_memory=kv_memory,
            page_size=page_size,
            runner=runner,
            amateur=amateur,
            weights=weights,
        )
        self._model = OpenModel.of(loaded, limits)

    @classmethod
    def from_loaded(cls, loaded: Loaded, *, limits: Limits | None = None) -> Self:
        """A door to what `unspool.loading.load` has loaded; closing it closes that."""
        return cls._to(OpenModel.of(loaded, limits))

    @classmethod
    def from_parts(
        cls,
        runner: Runner,
        tokenizer: Tokenizer,
        *,
        chat_template: ChatTemplate | None = None,
        context_length: int | None = None,
        limits: Limits | None = None,
        amateur: Runner | None = None,
    ) -> Self:
        """A door to a runner and a tokenizer of one's own; closing it closes the runner.

        `amateur` is the runner of a second model of the same tokens, with as many pages of the same size.
        """
        beside = None if amateur is None else (amateur, None)
        return cls._to(OpenModel(runner, tokenizer, None, chat_template, context_length, limits, beside))

    @classmethod
    def of(cls, other: Door) -> Self:
        """Another door to the same model; the first that is closed closes it for all."""
        return cls._to(other._model)

    @classmethod
    def _to(cls, model: OpenModel) -> Self:
        door = cls.__new__(cls)
        door._model = model
        return door

    def __repr__(self) -> str:
        loaded = self._model.source
        name = type(self.runner).__name__ if loaded is None else loaded
        state = ", closed" if self._engine.is_closed else ""
        return f"<{type(self).__name__} {name}: context of {self.context_length} tokens{state}>"

    @property
    def _engine(self) -> Engine:
        return self._model.engine

    @property
    def _worker(self) -> Worker:
        return self._model.worker

    @property
    def tokenizer(self) -> Tokenizer:
        return self._model.tokenizer

    @property
    def context_length(self) -> int:
        """Longest prompt and answer together, in tokens."""
        return self._engine.context_length

    @property
    def runner(self) -> Runner:
        """What computes the logits."""
        return self._engine.runner

    @property
    def amateur(self) -> Runner | None:
        """What computes the amateur's logits; None where there is no amateur."""
        runners = self._engine.storage.runners
        return runners[AMATEUR] if len(runners) > AMATEUR else None

    def stats(self) -> EngineStats:
        """What the engine is doing and has done, in numbers; any thread may ask at any time."""
        return self._engine.stats()

    @property
    def chat_template(self) -> ChatTemplate:
        """Raises TemplateError when the model has none."""
        return self._model.chat_template

    @property
    def has_chat_template(self) -> bool:
        """Whether there is a chat template. One that does not parse is one, and `chat` says what is wrong."""
        from unspool.models.chat_template import NO_TEMPLATE

        try:
            return self.chat_template is not None
        except TemplateError as error:
            return error.code != NO_TEMPLATE

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
