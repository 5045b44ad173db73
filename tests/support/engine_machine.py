"""A machine that does anything to an engine in any order, and compares each request with itself alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from unspool.engine.engine import Engine
from unspool.engine.task import Phase
from unspool.errors import CapacityError
from unspool.kv.session_file import Session
from unspool.params import DecodingParams
from unspool.types import Event, Request


@dataclass
class Answer:
    """What the events of one branch add up to."""

    text: str = ""
    token_ids: tuple = ()
    logprobs: tuple = ()
    prompt_logprobs: tuple = ()
    finish_reason: str | None = None
    stop: object = None

    def hear(self, event: Event) -> None:
        assert self.finish_reason is None, "an event after the last one"
        self.text += event.text
        self.token_ids += event.token_ids
        self.logprobs += event.logprobs
        self.prompt_logprobs += event.prompt_logprobs or ()
        self.finish_reason, self.stop = event.finish_reason, event.stop

    @property
    def whole(self) -> tuple:
        return self.text, self.token_ids, self.logprobs, self.finish_reason, self.stop


@dataclass
class Asked:
    request: Request
    answers: dict[int, Answer] = field(default_factory=dict)
    is_cancelled: bool = False

    def hear(self, event: Event) -> None:
        self.answers.setdefault(event.branch, Answer()).hear(event)


def answers_of(engine: Engine, request: Request) -> dict[int, Answer]:
    """A request on an engine of its own, to its end."""
    asked = Asked(request)
    engine.add(request)
    while not engine.is_idle:
        for event in engine.step():
            asked.hear(event)
    return asked.answers


class Machine:
    """Draws from `rng` what to do next. `alone` makes the engine that a request is compared on."""

    def __init__(self, rng, engine: Engine, alone, n_vocab: int, n_prompt_max: int, n_new_max: int) -> None:
        self.rng, self.engine, self.alone = rng, engine, alone
        self.n_vocab, self.n_prompt_max, self.n_new_max = n_vocab, n_prompt_max, n_new_max
        self.in_flight: dict[int, Asked] = {}
        self.ended: list[Asked] = []
        self.texts: list[list[int]] = []
        self.sessions: list[Session] = []
        self.n_preempted = self.n_cached = self.n_refused = self.n_saved = self.n_loaded = 0

    def run(self, n_actions: int) -> None:
        actions = (
            [self.add] * 3
            + [self.step] * 8
            + [self.cancel, self.preempt, self.reprioritise, self.evict]
            + [self.save, self.load]
        )
        for _ in range(n_actions):
            actions[self.rng.integers(len(actions))]()
            self.engine.check()
        while not self.engine.is_idle:
            self.step()
            self.engine.check()

    def add(self) -> None:
        if len(self.in_flight) > 12:
            return
        request = Request(
            self.prompt(),
            self.params(),
            n=int(self.rng.choice([1, 1, 2, 3])),
            priority=int(self.rng.integers(-1, 2)),
            salt=str(self.rng.integers(2)) if self.rng.random() < 0.3 else None,
            use_cache=bool(self.rng.random() < 0.9),
        )
        try:
            self.in_flight[self.engine.add(request)] = Asked(request)
        except CapacityError:
            self.n_refused += 1

    def prompt(self) -> tuple[int, ...]:
        """Often the beginning of a text that was there before, with something new behind it."""
        rng = self.rng
        known = list(self.texts[rng.integers(len(self.texts))]) if self.texts and rng.random() < 0.7 else []
        known = known[: rng.integers(len(known) + 1)]
        n_new = int(rng.integers(1, self.n_prompt_max // 2 + 1))
        ids = (known + rng.integers(1, self.n_vocab, n_new).tolist())[: self.n_prompt_max]
        self.texts.append(ids)
        return tuple(ids)

    def params(self) -> DecodingParams:
        rng = self.rng
        n_max = int(rng.integers(1, self.n_new_max + 1))
        return DecodingParams(
            temperature=float(rng.choice([0, 0.7, 1.5])),
            top_k=int(rng.choice([0, 3])),
            seed=int(rng.integers(2**63)),
            repetition_penalty=float(rng.choice([1, 1.3])),
            presence_penalty=float(rng.choice([0, 0.5])),
            min_tokens=int(rng.integers(n_max + 1)) if rng.random() < 0.3 else 0,
            max_tokens=n_max,
            stop=("ba", "aab") if rng.random() < 0.3 else (),
            ignore_eos=bool(rng.random() < 0.5),
            logprobs=int(rng.integers(3)) if rng.random() < 0.5 else None,
            prompt_logprobs=1 if rng.random() < 0.15 else None,
        )

    def step(self) -> None:
        self.hear(self.engine.step())

    def cancel(self) -> None:
        if self.in_flight:
            request_id = int(self.rng.choice(list(self.in_flight)))
            self.in_flight[request_id].is_cancelled = True
            self.hear(self.engine.cancel(request_id))

    def preempt(self) -> None:
        scheduler = self.engine._scheduler
        able = [t for t in scheduler._running if not scheduler._is_safe(t)]
        if able:
            scheduler._preempt(able[self.rng.integers(len(able))])
            self.n_preempted += 1

    def reprioritise(self) -> None:
        if self.in_flight:
            request_id = int(self.rng.choice(list(self.in_flight)))
            self.engine.set_priority(request_id, int(self.rng.integers(-2, 3)))

    def evict(self) -> None:
        self.engine.storage.tree.evict(int(self.rng.integers(4)))

    def save(self) -> None:
        """Keep a session of a text that is known, or of a request in flight as far as it is."""
        rng, sessions = self.rng, self.engine.sessions
        if self.in_flight and rng.random() < 0.5:
            request_id = int(rng.choice(list(self.in_flight)))
            branch = int(rng.choice(list(self.engine._tasks[request_id].branches)))
            self.sessions.append(sessions.read_request(request_id, branch=branch))
        elif self.texts:
            self.sessions.append(sessions.read(self.texts[rng.integers(len(self.texts))]))
        self.n_saved += bool(self.sessions) and self.sessions[-1].n_tokens > 0
        del self.sessions[:-6]

    def load(self) -> None:
        """Bring back a session, most often long after its pages are gone."""
        if self.sessions:
            session = self.sessions[self.rng.integers(len(self.sessions))]
            salt = str(self.rng.integers(2)) if self.rng.random() < 0.3 else None
            try:
                self.engine.sessions.restore(session, salt=salt)
            except CapacityError:
                self.n_refused += 1
            else:
                assert self.engine.sessions.n_known(session.token_ids.tolist(), salt=salt) == session.n_tokens
                self.n_loaded += session.n_tokens > 0

    def hear(self, events) -> None:
        for event in events:
            asked = self.in_flight[event.request_id]
            asked.hear(event)
            if event.usage is not None:
                self.n_cached += event.usage.cached_tokens
                self.n_preempted += event.usage.n_preempted
            task = self.engine._tasks.get(event.request_id)
            if task is None or task.phase is Phase.DONE:
                ended = all(a.finish_reason for a in asked.answers.values())
                if ended and len(asked.answers) == asked.request.n:
                    self.ended.append(self.in_flight.pop(event.request_id))
                    self.texts += [
                        list(asked.request.prompt_ids + a.token_ids) for a in asked.answers.values()
                    ]
                    del self.texts[:-40]

    def compare(self) -> int:
        """Every ended request with the same request alone; how many there were."""
        assert not self.in_flight
        for asked in self.ended:
            expected = answers_of(self.alone(), asked.request)
            assert asked.answers.keys() == expected.keys()
            for branch, answer in asked.answers.items():
                if not asked.is_cancelled or answer.finish_reason != "cancelled":
                    assert answer.whole == expected[branch].whole
                    assert answer.prompt_logprobs == expected[branch].prompt_logprobs or branch
                else:  # what it has is what it would have had, but for what a stop string would have cut
                    n = min(len(answer.token_ids), len(expected[branch].token_ids))
                    assert n == len(answer.token_ids) or asked.request.params.stop
                    assert expected[branch].token_ids[:n] == answer.token_ids[:n]
                    assert expected[branch].logprobs[:n] == answer.logprobs[:n]
        return len(self.ended)
