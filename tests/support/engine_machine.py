"""A machine that does anything to an engine in any order, and compares each request with itself alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from machine_requests import Sizes, random_request

from unspool.engine.engine import Engine
from unspool.engine.limits import Limits
from unspool.errors import BadRequest, CapacityError
from unspool.types import Event, Request


@dataclass
class Answer:
    """What the events of one branch add up to."""

    text: str = ""
    token_ids: tuple = ()
    logprobs: tuple = ()
    trace: tuple = ()
    prompt_logprobs: tuple = ()
    finish_reason: str | None = None
    stop: object = None
    score: float | None = None
    error: str | None = None

    def hear(self, event: Event) -> None:
        assert self.finish_reason is None, "an event after the last one"
        self.text += event.text
        self.token_ids += event.token_ids
        self.logprobs += event.logprobs
        self.trace += event.trace
        self.prompt_logprobs += event.prompt_logprobs
        self.finish_reason, self.stop, self.score = event.finish_reason, event.stop, event.score
        self.error = None if event.error is None else str(event.error)

    @property
    def is_cut(self) -> bool:
        """Whether something from outside ended it: a page that was not copied, too."""
        reasons = ("cancelled", "deadline")
        return self.finish_reason in reasons or "could not be copied" in (self.error or "")


@dataclass
class Asked:
    request: Request
    answers: dict[int, Answer] = field(default_factory=dict)
    is_cancelled: bool = False

    def hear(self, event: Event) -> None:
        self.answers.setdefault(event.branch, Answer()).hear(event)

    @property
    def is_cut(self) -> bool:
        """Whether it was ended from outside, cancelled or late."""
        if _is_ranked(self.request) and self.request.params.deadline_s is not None:
            return True  # it may have been: hypotheses that had ended by then keep their own reasons
        return self.is_cancelled or any(answer.is_cut for answer in self.answers.values())


class Flaky:
    """A runner whose next pass fails when it is told to, before or after everything is written, or whose next
    copy does; and whose clock moves on as it runs."""

    def __init__(self, runner) -> None:
        self._runner = runner
        self.fails: str | None = None
        self.n_not_copied = 0
        self.now_s = 0.0

    def __getattr__(self, name):
        return getattr(self._runner, name)

    def forward(self, plan):
        self.now_s += 0.25
        fails, self.fails = self.fails, None
        self._fail_if(fails == "before")
        if fails == "fork":
            self.fails = "copy"
        logits = self._runner.forward(plan)
        self._fail_if(fails == "after")
        return logits

    def copy_page(self, source, target):
        if self.fails == "copy":  # for who takes a part of a page before the pass; a fork's, if told so
            self.fails = None
            self.n_not_copied += 1
            self._fail_if(True)
        self._runner.copy_page(source, target)

    def _fail_if(self, fails: bool) -> None:
        if fails:
            raise ZeroDivisionError("told to")


class Machine:
    """Draws from `rng` what to do next. `make_runner(n_pages)` makes one that holds that many, and so does
    `make_amateur` for the second model; without it no request contrasts."""

    def __init__(
        self, rng, make_runner, vocabulary, sizes: Sizes, n_pages: int, limits: Limits, make_amateur=None
    ) -> None:
        self.rng, self.sizes = rng, sizes
        self._is_followed = np.random.default_rng(1)  # apart: who reads an answer changes nothing else
        self.runner = Flaky(make_runner(n_pages))
        self.amateur = None if make_amateur is None else Flaky(make_amateur(n_pages))
        self.engine = Engine(
            *(self.runner, vocabulary),
            limits=limits,
            clock=lambda: self.runner.now_s,
            amateur=self.amateur,
        )
        self._make_alone = lambda: Engine(
            *(make_runner(None), vocabulary),
            clock=lambda: 0.0,
            amateur=None if make_amateur is None else make_amateur(None),
        )
        self.in_flight: dict[int, Asked] = {}
        self.ended: list[Asked] = []
        self.texts: list[list[int]] = []
        self.sessions: list = []
        self.n_steps = 0
        self.seen: Counter = Counter()

    def run(self, n_steps: int) -> None:
        """So many steps of the engine, and whatever else comes between them; then all to their ends."""
        actions = [self.add] * 3 + [self.step] * 8
        actions += [self.cancel, self.preempt, self.reprioritise, self.evict, self.wait, self.fail]
        actions += [self.pause, self.resume, self.resume]
        actions += [self.save, self.load]
        while self.n_steps < n_steps:
            actions[self.rng.integers(len(actions))]()
            self.engine.check()
        self.be_sound()
        for request_id in self.in_flight:
            self.engine.resume(request_id)
        n_left = 100_000
        while not self.engine.is_idle:
            self.step()
            self.engine.check()
            n_left -= 1
            assert n_left, "the engine does not come to an end"

    def add(self) -> None:
        if len(self.in_flight) > 12:
            return
        request = random_request(self.rng, self.sizes, self.prompt(), self.amateur is not None)
        try:
            request_id = self.engine.add(request, is_followed=self._is_followed.random() < 2 / 3)
            self.in_flight[request_id] = Asked(request)
        except CapacityError:
            self.seen["refused"] += 1
        except BadRequest as error:
            if error.code != "bad_n":  # more rows than a step has
                raise
            self.seen["refused"] += 1

    def prompt(self) -> tuple[int, ...]:
        """Often the beginning of a text that was there before, with something new behind it."""
        rng, sizes = self.rng, self.sizes
        known = list(self.texts[rng.integers(len(self.texts))]) if self.texts and rng.random() < 0.7 else []
        known = known[: rng.integers(len(known) + 1)]
        n_new = int(rng.integers(1, sizes.n_prompt // 2 + 1))
        ids = (known + rng.integers(1, sizes.n_vocab, n_new).tolist())[: sizes.n_prompt]
        self.texts.append(ids)
        return tuple(ids)

    def step(self) -> None:
        was_told_to_fail = next((each.fails for each in self.runners if each.fails), None)
        n_not_copied = self.n_not_copied
        self.n_steps += not self.engine.is_resting
        try:
            self.hear(self.engine.step())
        except ZeroDivisionError:
            self.seen[f"failed {was_told_to_fail}"] += 1
        if was_told_to_fail == "copy" and self.n_not_copied > n_not_copied:
            self.seen["failed copy"] += 1
        if any(each.fails == "copy" for each in self.runners):  # no copy was due
            self.be_sound()

    @property
    def runners(self) -> list[Flaky]:
        return [each for each in (self.runner, self.amateur) if each is not None]

    @property
    def n_not_copied(self) -> int:
        return sum(each.n_not_copied for each in self.runners)

    def fail(self) -> None:
        """The next pass fails, and the step after it does the same again; or the next copy does: one before a
        pass, whose page is then read, or one after it, whose request then ends."""
        self.be_sound()
        which = self.runners[self.rng.integers(len(self.runners))]
        which.fails = str(self.rng.choice(["before", "after", "copy", "fork"]))

    def be_sound(self) -> None:
        for each in self.runners:
            each.fails = None

    def wait(self) -> None:
        self.runner.now_s += float(self.rng.integers(4))

    def cancel(self) -> None:
        if request_id := self.someone():
            self.seen[f"cancelled {self.engine._tasks[request_id[0]].phase.value}"] += 1
            self.in_flight[request_id[0]].is_cancelled = True
            self.hear(self.engine.cancel(*request_id))

    def preempt(self) -> None:
        scheduler = self.engine._scheduler
        able = [t for t in scheduler._running if not scheduler._is_safe(t)]
        if able:
            scheduler._preempt(able[self.rng.integers(len(able))])

    def reprioritise(self) -> None:
        if request_id := self.someone():
            self.engine.set_priority(*request_id, int(self.rng.integers(-2, 3)))

    def pause(self) -> None:
        """Its reader is behind."""
        if request_id := self.someone():
            self.seen[f"paused {self.engine._tasks[request_id[0]].phase.value}"] += 1
            self.engine.pause(*request_id)

    def resume(self) -> None:
        paused = [i for i, task in self.engine._tasks.items() if task.is_paused]
        if paused:
            self.engine.resume(int(self.rng.choice(paused)))

    def evict(self) -> None:
        self.engine.storage.tree.evict(int(self.rng.integers(4)))

    def save(self) -> None:
        """Of a request in flight, or of any text."""
        request_id = self.someone()
        if request_id and self.rng.random() < 0.5:
            branches = list(self.engine._tasks[request_id[0]].branches)
            branch = branches[self.rng.integers(len(branches))]
            session = self.engine.sessions.read_request(request_id[0], branch=branch)
        elif self.texts:
            session = self.engine.sessions.read(self.texts[self.rng.integers(len(self.texts))])
        else:
            return
        if session.n_tokens:
            self.sessions = [*self.sessions[-3:], session]
            self.seen["saved"] += 1

    def load(self) -> None:
        if self.sessions:
            session = self.sessions[self.rng.integers(len(self.sessions))]
            salt = str(self.rng.integers(2)) if self.rng.random() < 0.3 else None
            try:
                self.engine.sessions.restore(session, salt=salt)
            except (CapacityError, ZeroDivisionError) as error:  # too many pages are in use; told to fail
                self.seen[f"not loaded {type(error).__name__}"] += 1
                return
            n_known = self.engine.sessions.n_known(session.token_ids.tolist(), salt=salt)
            assert n_known == session.n_tokens
            self.texts.append(session.token_ids.tolist())
            self.seen["loaded"] += 1

    def someone(self) -> tuple[int, ...]:
        """The id of a request in flight, if there is one."""
        return (int(self.rng.choice(list(self.in_flight))),) if self.in_flight else ()

    def hear(self, events) -> None:
        for event in events:
            asked = self.in_flight[event.request_id]
            asked.hear(event)
            self.seen[str(event.finish_reason)] += 1
            self.seen["not copied"] += event.error is not None and event.error.code == "copy_failed"
            if event.usage is not None:
                self.seen["cached tokens"] += event.usage.cached_tokens
                self.seen["preempted"] += event.usage.n_preempted
                assert event.usage.n_preempted <= self.engine._scheduler.limits.n_preemptions
        for request_id in [i for i in self.in_flight if i not in self.engine._tasks]:
            asked = self.in_flight.pop(request_id)
            self.ended.append(asked)
            self.seen[type(asked.request.search).__name__] += 1
            self.seen["guided"] += asked.request.params.guidance_scale != 1
            self.seen["contrasted"] += asked.request.params.contrast_beta > 0
            self.texts += [list(asked.request.prompt_ids + a.token_ids) for a in asked.answers.values()]
            del self.texts[:-40]

    def compare(self) -> int:
        """Every ended request with the same request alone; how many there were."""
        assert not self.in_flight
        for asked in self.ended:
            expected = self.alone(asked.request)
            if not asked.is_cut:
                assert asked.answers == expected
                continue
            if _is_ranked(asked.request):
                continue  # what stood best when it was cut need not be what is best in the end
            for branch, answer in asked.answers.items():
                _assert_begins(answer, expected.get(branch, Answer()), asked.request.params)
        return len(self.ended)

    def alone(self, request: Request) -> dict[int, Answer]:
        """A request on an engine of its own, to its end."""
        engine = self._make_alone()
        asked = Asked(request)
        engine.add(replace(request, params=request.params.replace(deadline_s=None)))
        while not engine.is_idle:
            for event in engine.step():
                asked.hear(event)
        return asked.answers


def _is_ranked(request: Request) -> bool:
    return request.search is not None and request.search.is_ranked


def _assert_begins(answer: Answer, expected: Answer, params) -> None:
    """A branch that was cut has what it would have had, but for what a stop would have taken off."""
    if not answer.is_cut:
        assert answer == expected or answer.finish_reason is None  # the latter was dropped
    n = min(len(answer.token_ids), len(expected.token_ids))
    assert n == len(answer.token_ids) or params.stop or params.stop_regex
    assert expected.token_ids[:n] == answer.token_ids[:n]
    for had, has in ((expected.logprobs, answer.logprobs), (expected.trace, answer.trace)):
        assert all(a == b for a, b in zip(had, has, strict=False))
    assert answer.prompt_logprobs in ((), expected.prompt_logprobs)


def run_machines(seeds, n_steps: int, make) -> Counter:
    """A machine for each seed, `make(rng)`, of about n_steps together; what they have seen."""
    seen: Counter = Counter()
    for seed in seeds:
        machine = make(np.random.default_rng(seed))
        try:
            machine.run(-(-n_steps // len(seeds)))
            assert machine.engine.pool.n_live == 0
            seen["compared"] += machine.compare()
        except BaseException as error:
            raise AssertionError(f"the machine of seed {seed}, after {machine.n_steps} steps") from error
        seen["steps"] += machine.n_steps
        seen += machine.seen
    return seen
