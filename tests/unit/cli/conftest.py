"""A model that says what it is told to, in the place of the real front door."""

from __future__ import annotations

import signal
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_stream import FakeStream

from unspool.cli import load, main
from unspool.errors import TemplateError, UnspoolError
from unspool.kv.session import KvIdentity, Session
from unspool.kv.session_file import read_session, write_session
from unspool.params import DecodingParams
from unspool.saving import SavedText
from unspool.types import Event, Usage

FAKE = KvIdentity("fake", "a", "b", 1, 1, 1, "<f2")


@dataclass
class FakeLLM:
    """Streams `pieces`, a token each, and remembers what it was asked."""

    pieces: Sequence[str] = ("Once ", "upon ", "a time.")
    template_problem: TemplateError | None = None
    refuses: UnspoolError | None = None  # raised before the first piece
    fails: UnspoolError | None = None  # reported after the last
    finish_reason: str = "stop"
    stop: str | int | None = 2
    prompts: list[tuple[str, DecodingParams]] = field(default_factory=list)
    chats: list[tuple[list[dict[str, str]], DecodingParams]] = field(default_factory=list)
    searches: list[object] = field(default_factory=list)
    asked: dict[str, Any] = field(default_factory=dict)
    identity: KvIdentity = FAKE
    cannot_load: UnspoolError | None = None
    scores: Sequence[float] = ()  # of the answers of a search
    saves: list[int] = field(default_factory=list)  # tokens with keys and values in each file written
    loads: list[int] = field(default_factory=list)
    n_cached: int = 0
    interrupted_at: int | None = None  # piece before which somebody presses Ctrl-C
    tells_late: bool = False  # nothing before its end, as a search does that ranks
    is_closed: bool = False
    n_streams_closed: int = 0

    @property
    def chat_template(self) -> object:
        if self.template_problem is not None:
            raise self.template_problem
        return object()

    @property
    def has_chat_template(self) -> bool:
        return self.template_problem is None or self.template_problem.code != "no_chat_template"

    def lose_template(self) -> None:
        self.template_problem = TemplateError("m: has no chat template", code="no_chat_template")

    def stream(self, prompt: str, params: DecodingParams, n: int = 1, search: object = None) -> FakeStream:
        self.searches.append(search)
        self.prompts.append((prompt, params))
        return self._stream(params, n)

    def stream_chat(
        self, messages: list[dict[str, str]], params: DecodingParams, n: int = 1, search: object = None
    ) -> FakeStream:
        self.searches.append(search)
        self.chats.append(([dict(message) for message in messages], params))
        return self._stream(params, n)

    def _stream(self, params: DecodingParams, n: int) -> FakeStream:
        usage = Usage(7, 0, 1, 0.5, 20.0, 0.02, 0.1, 0)
        cancelled = Event(
            *(0, "and ", (9,)), finish_reason="cancelled", usage=usage, seed=None if params.is_greedy else 41
        )
        events = self._events(params, n)
        return FakeStream(self._late(events) if self.tells_late else events, cancelled)

    def _late(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        yield from list(events)

    def _events(self, params: DecodingParams, n: int) -> Generator[Event, None, None]:
        """The pieces; of n answers all grow side by side, the second and those after it in capitals."""
        try:
            if self.refuses is not None:
                raise self.refuses
            for index, piece in enumerate(self.pieces):
                if index == self.interrupted_at:
                    signal.raise_signal(signal.SIGINT)
                for branch in range(n):
                    text = piece.upper() if branch else piece
                    yield Event(request_id=0, text=text, token_ids=(index,), branch=branch)
            usage = Usage(
                prompt_tokens=7,
                cached_tokens=self.n_cached,
                queue_ms=0.5,
                completion_tokens=len(self.pieces),
                ttft_ms=20.0,
                prefill_s=0.02,
                decode_s=0.1,
                decoded_tokens=max(0, len(self.pieces) - 1),
            )
            for branch in reversed(range(n)):
                yield Event(
                    request_id=0,
                    text="",
                    token_ids=(),
                    branch=branch,
                    finish_reason="error" if self.fails else self.finish_reason,
                    stop=self.stop,
                    seed=None if params.is_greedy else params.seed or 41,
                    usage=usage,
                    error=self.fails,
                    score=self.scores[branch] if self.scores else None,
                )
        finally:
            self.n_streams_closed += 1

    def save_session(self, path: Path, prompt: Sequence[int], *, note: Any) -> SavedText:
        """A token each of `prompt`, with keys and values of its own."""
        self.saves.append(len(prompt))
        ids = np.array(prompt, np.int32)
        write_session(path, Session(self.identity, ids, np.zeros((len(ids), 4), np.uint8), note))
        return SavedText(tuple(prompt), note, 4 * len(ids))

    def save_chat_session(self, path: Path, messages: Any, *, note: Any, compute_missing: bool) -> SavedText:
        assert not compute_missing
        return self.save_session(path, range(10 * len(messages)), note=note)

    def load_session(self, path: Path) -> SavedText:
        if self.cannot_load is not None:
            raise self.cannot_load
        session = read_session(path, self.identity)
        self.loads.append(session.n_tokens)
        return SavedText(tuple(session.token_ids.tolist()), session.note, session.values.nbytes)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def fake_llm(monkeypatch: pytest.MonkeyPatch) -> FakeLLM:
    """Whatever --model says, this is loaded; `asked` has the options of loading."""
    fake = FakeLLM()

    def load_llm(model: str, **options: Any) -> FakeLLM:
        fake.asked = {"model": model} | options
        return fake

    monkeypatch.setattr(load, "load_llm", load_llm)
    return fake


@pytest.fixture(autouse=True)
def config_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the user's profiles would lie: empty, whoever runs the tests."""
    monkeypatch.setenv("UNSPOOL_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


@dataclass
class Ran:
    exit_code: int
    out: str
    err: str


@pytest.fixture
def unspool(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """Run the command line in this process: unspool("run", "Hi", stdin=b"...")."""

    def call(*arguments: str, stdin: bytes | None = None) -> Ran:
        source = tmp_path / "stdin"
        source.write_bytes(stdin or b"")
        with source.open(encoding="utf-8") as standard_input, monkeypatch.context() as patched:
            patched.setattr("sys.stdin", standard_input)
            exit_code = main(list(arguments))
        captured = capfd.readouterr()
        return Ran(exit_code, captured.out, captured.err)

    return call
