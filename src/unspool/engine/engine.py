"""The engine: requests in, events out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from unspool.engine import admission, commit
from unspool.engine.companion import OWN_MODEL, companions_of
from unspool.engine.deadlines import Deadlines
from unspool.engine.detokenize import Vocabulary
from unspool.engine.limits import Limits
from unspool.engine.rules import rules_of, spellings
from unspool.engine.scheduler import Scheduler
from unspool.engine.share import Share
from unspool.engine.stats import EngineStats
from unspool.engine.steady import Steady
from unspool.engine.step import run_step
from unspool.engine.storage import Storage
from unspool.engine.task import Clock, Owner, Phase, Task
from unspool.errors import BadRequest, CapacityError, named
from unspool.kv.pool import PagePool
from unspool.once import once
from unspool.rng import fresh_seed
from unspool.runners.base import Runner
from unspool.search.base import Asked, SpeaksOfTexts
from unspool.types import Event, Request

if TYPE_CHECKING:
    from unspool.engine.sessions import Sessions


class Engine:
    """Runs any number of requests on one runner. Not for two threads at once.

    `add` a request, call `step` until it has ended, read the events. A request's tokens do not depend on
    the others. Whatever a step raises, the requests are as they were before it, and `cancel` frees them.
    """

    def __init__(
        self,
        runner: Runner,
        vocabulary: Vocabulary,
        *,
        context_length: int | None = None,
        limits: Limits | None = None,
        prefix_cache: bool = True,
        clock: Callable[[], float] = perf_counter,
        amateur: Runner | None = None,
    ) -> None:
        """`amateur` is a second model for requests that contrast with one; it has as many pages of the same
        size, and the same tokens.
        `prefix_cache` keeps the pages of texts that have ended for those that begin alike.
        `clock` tells seconds; times and deadlines are read from it."""
        if context_length is not None:
            admission.check_context(context_length, runner.context_length)
        if limits is not None and not isinstance(limits, Limits):
            raise BadRequest(f"limits must be Limits, got {limits!r}", code="bad_limits")
        self._n_vocab = min(vocabulary.vocab_size, runner.vocab_size)
        if amateur is not None:
            admission.check_amateur(runner, amateur, self._n_vocab)
        self.runner = runner
        self.vocabulary = vocabulary
        self.context_length = runner.context_length if context_length is None else context_length
        self.storage = Storage.of(runner, clock, () if amateur is None else (amateur,))
        self._prefix_cache = prefix_cache
        self._scheduler = Scheduler(self.storage, limits or Limits(), runner.vocab_size)
        self._tasks: dict[int, Task] = {}
        self._steady: Steady | None = None  # the last step's, if it was one
        self._n_changes = 0  # of the scheduler, before it last said who runs
        self._deadlines = Deadlines()
        self._n_paused = 0
        self._clock = clock
        self._n_added = 0
        self._is_closed = False

    @property
    def pool(self) -> PagePool:
        return self.storage.pool

    @once
    def sessions(self) -> Sessions:
        from unspool.engine.sessions import Sessions

        return Sessions(
            self.storage,
            self.vocabulary,
            self._tasks,
            self._n_vocab,
            self.context_length,
            self._prefix_cache,
        )

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._tasks

    @property
    def is_resting(self) -> bool:
        """Whether there is nothing to run until something changes: every request in flight is paused."""
        return self._n_paused == len(self._tasks)

    @property
    def limits(self) -> Limits:
        return self._scheduler.limits

    def is_in_flight(self, request_id: int) -> bool:
        return request_id in self._tasks

    def add(self, request: Request, *, is_followed: bool = True) -> int:
        """Take a request in and return its id; it begins to run in the next step with room for it. The news
        of one that is not followed may all come with the end of each answer.

        Raises ContextOverflow, CapacityError or BadRequest for what can never run.
        """
        self._require_open()
        admission.check_prompt(request, self._n_vocab)
        params = request.params
        models = self.storage.runners
        companions = companions_of(request, self.vocabulary, self._n_vocab, len(models))
        n_prompt = len(request.prompt_ids)
        n_room = admission.room_after("the prompt", n_prompt, self.context_length, self.runner)
        for each in companions:
            what = "the negative prompt" if each.model == OWN_MODEL else "for the amateur the prompt"
            n_context = min(self.context_length, models[each.model].context_length)
            n_room = min(n_room, admission.room_after(what, len(each.prompt_ids), n_context, self.runner))
        rules = rules_of(
            params,
            self.vocabulary,
            n_vocab=self._n_vocab,
            template_positions=request.template_positions,
        )
        n_new_max = n_room if params.max_tokens is None else min(params.max_tokens, n_room)
        search = admission.search_of(request)
        if isinstance(search, SpeaksOfTexts):
            write = partial(spellings, vocabulary=self.vocabulary)
            asked = Asked(params, rules, n_new_max, self._n_vocab, write, self.vocabulary.token_bytes)
            search = search.bound(asked)
        admission.check_n(request.n, search, len(companions), self.limits.n_rows)
        page_size = self.storage.page_size
        n_pages_min = n_pages_max = 0
        for n_tokens in (n_prompt, *(len(each.prompt_ids) for each in companions)):
            shared, unshared = admission.pages_of(n_tokens, n_new_max, search.max_branches, page_size)
            n_pages_min, n_pages_max = n_pages_min + shared, n_pages_max + unshared
        if n_pages_min > self.pool.n_pages:
            raise CapacityError(
                f"the request may need {n_pages_min * page_size} tokens and the KV cache holds "
                f"{self.pool.n_pages * page_size}; lower max_tokens or {named('n')}, or give "
                f"more {named('kv_tokens')}"
            )
        request_id = self._n_added
        self._n_added += 1
        seed = fresh_seed() if params.seed is None else params.seed
        clock = Clock(self._clock())
        is_shared = self._prefix_cache and request.use_cache
        salt: Owner = ("shared", request.salt) if is_shared else ("own", request_id)
        task = Task(
            *(request_id, request, rules, seed, search, n_new_max, n_pages_max, salt, clock),
            companions=companions,
            priority=request.priority,
            is_followed=is_followed or admission.tells_on_the_way(params, search),
        )
        commit.plant(task, self.storage, self.vocabulary)
        self._tasks[request_id] = task
        self._scheduler.add(task)
        self.storage.journal.added(task)
        if params.deadline_s is not None:
            self._deadlines.add(clock.added + params.deadline_s, request_id)
        return request_id

    def step(self) -> list[Event]:
        """Run once what can run now; the news of it. Does nothing when idle.

        When deadlines have passed, the step only ends their requests: that is news, and a forward pass
        that failed would lose it.
        """
        self._require_open()
        if self._deadlines and (late := self._end_late()):
            return late
        self.storage.journal.begin_step()
        shares = self._next_shares()
        if not shares:
            return []
        started, steady = self._clock(), self._steady
        events, n_decoding = None, len(shares)
        if steady is not None and (events := steady.run()) is None:
            started = self._clock()  # of the step that counts
        if events is None:
            events = run_step(shares, self.storage, self.vocabulary, self._n_vocab)
            n_decoding = sum(share.n_rows for share in shares if not share.is_prompt)
        self._scheduler.observe(n_decoding, self._clock() - started)
        if steady is None or steady.is_over:
            for share in shares:
                if share.task.phase is Phase.DONE:
                    self._forget(share.task)
        self.storage.journal.end_step()
        return events

    def _next_shares(self) -> Sequence[Share]:
        """What the scheduler says, unless it can only say again what it said last: it had every branch that
        runs take part, moved nobody, and nobody has moved since."""
        scheduler = self._scheduler
        if (steady := self._steady) and self._n_changes == scheduler.n_changes and steady.reserve():
            return steady.shares
        self._n_changes = scheduler.n_changes
        shares = scheduler.plan()
        steady = None
        if shares and self._n_changes == scheduler.n_changes and scheduler.has_all(shares):
            steady = Steady.of(shares, self.storage, self._n_vocab)
        self._steady = steady if steady is not None and steady.reserve() else None
        return shares

    def cancel(self, request_id: int) -> list[Event]:
        """End a request as it stands and free its pages; its last events. None for one that has ended."""
        task = self._tasks.get(request_id)
        if task is None:
            return []
        events = commit.finish(task, "cancelled", self.storage, self._clock())
        self._forget(task)
        return events

    def set_priority(self, request_id: int, priority: int) -> None:
        """Change the priority of a request in flight; does nothing for one that has ended."""
        if (task := self._tasks.get(request_id)) is not None:
            self._scheduler.set_priority(task, priority)

    def pause(self, request_id: int) -> None:
        """Let a request rest until `resume`: the others have its pages and its place meanwhile."""
        task = self._tasks.get(request_id)
        if task is not None and not task.is_paused:
            self._scheduler.pause(task)
            self._n_paused += 1

    def resume(self, request_id: int) -> None:
        """Let a paused request run again; does nothing for one that is not paused."""
        task = self._tasks.get(request_id)
        if task is not None and task.is_paused:
            self._scheduler.resume(task)
            self._n_paused -= 1

    def next_deadline_s(self) -> float | None:
        """Seconds to the next deadline of a request in flight, at least 0; None when there is none."""
        at = self._deadlines.next(self._tasks)
        return None if at is None else max(at - self._clock(), 0.0)

    def stats(self) -> EngineStats:
        """What the engine is doing and has done; cheap, and safe to call from another thread."""
        pool = self.pool
        n_free, n_cached = pool.n_free, pool.n_cached  # read once, so that they add up in another thread too
        return EngineStats(
            n_running=self._scheduler.n_running,
            n_waiting=self._scheduler.n_waiting,
            n_paused=self._n_paused,
            n_pages=pool.n_pages,
            n_pages_free=n_free,
            n_pages_cached=n_cached,
            n_pages_live=pool.n_pages - n_free - n_cached,
            n_pages_in_tree=self.storage.tree.n_pages,
            page_size=self.storage.page_size,
            **self.storage.journal.counters(),
        )

    def check(self) -> None:
        """Assert that free, cached and live pages add up, and that each branch's tokens have theirs."""
        branches = [branch for task in self._tasks.values() for branch in task.branches.values()]
        strands = [strand for branch in branches for strand in branch.strands]
        self.pool.check((strand.table.pages.tolist() for strand in strands), self.storage.tree.pages())
        self.storage.tree.check()
        for strand in strands:
            assert strand.n_cached <= min(strand.table.n_tokens, len(strand.token_ids)), (
                "cached without a page"
            )
        for task in self._tasks.values():
            tables = (s.table for branch in task.branches.values() for s in branch.strands)
            held = len({page for table in tables for page in table.pages.tolist()})
            assert held <= task.n_pages_max, (
                f"request {task.request_id} holds {held} pages, {task.n_pages_max} at most were expected"
            )
        self._check_idle()

    def close(self) -> None:
        """Drop every request and close the runner; idempotent."""
        if self._is_closed:
            return
        for request_id in list(self._tasks):
            self.cancel(request_id)
        self._is_closed = True
        self.close_runners()

    def close_runners(self) -> None:
        """Free what the models hold; idempotent, and whatever state the engine is in."""
        for runner in self.storage.runners:
            runner.close()

    def _end_late(self) -> list[Event]:
        """End the requests whose deadline has passed, in the queue too."""
        events: list[Event] = []
        now = self._clock()
        for request_id in self._deadlines.passed(now, self._tasks):
            task = self._tasks[request_id]
            events += commit.finish(task, "deadline", self.storage, now)
            self._forget(task)
        return events

    def _forget(self, task: Task) -> None:
        """A task that is done leaves; the last one out checks that nothing stayed behind."""
        if self._tasks.pop(task.request_id, None) is None:
            return  # a task with several branches comes once for each
        self._scheduler.remove(task)
        self._n_paused -= task.is_paused
        self._check_idle()

    def _check_idle(self) -> None:
        if self.is_idle:
            self.pool.check_sums(self.storage.tree.n_pages)
            assert self.pool.n_live == 0, "an idle engine holds pages"

    def _require_open(self) -> None:
        if self._is_closed:
            raise BadRequest("the engine is closed; make a new one", code="closed")
