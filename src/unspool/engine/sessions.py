"""Keys and values of a text out of an engine and into one: what a session file holds.

`read` and `read_request` copy them out, `restore` brings them in; none of these touches a file, so that
a file may be written or read while the engine goes on. `save` and `load` are both at once. What is restored
is in the prefix tree as any text that has ended: kept until its pages are needed, found by whoever asks for a
text that begins so.

Promise 1 holds for what is restored too, or nothing is: besides comparing identities, some of the tokens
are computed again on top of what was read, and must come out with the same bits. So neither a session of
another build, nor one of another instruction set, changes an answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from unspool.engine import holding
from unspool.engine.detokenize import Vocabulary
from unspool.engine.storage import Storage
from unspool.engine.task import Task
from unspool.errors import BadRequest, CapacityError, ContextOverflow, SessionFileError, named
from unspool.kv.layout import pages_for
from unspool.kv.session import KvIdentity, Session, check_identity
from unspool.kv.session_file import read_session, write_session
from unspool.once import once
from unspool.read_only import ReadOnly
from unspool.types import I32, U8, Plan, Salt

N_COMPUTED_AGAIN: Final = 16  # tokens, each of another page
NO_NOTE: Final[Mapping[str, Any]] = ReadOnly()


class Sessions:
    """The keys and values of one engine, as sessions. `note` is any JSON object to keep with one."""

    def __init__(
        self,
        storage: Storage,
        vocabulary: Vocabulary,
        tasks: Mapping[int, Task],
        n_vocab: int,
        context_length: int,
        prefix_cache: bool,
    ) -> None:
        """`tasks` are those in flight, by request id."""
        self._storage = storage
        self._vocabulary = vocabulary
        self._tasks = tasks
        self._n_vocab = n_vocab
        self._context_length = context_length
        self._prefix_cache = prefix_cache

    @once
    def identity(self) -> KvIdentity:
        """Whose keys and values these are; worked out when the first session asks."""
        runner = self._storage.runner
        model, shape = runner.identity, runner.kv_shape
        return KvIdentity(
            model.name,
            model.sha256,
            _digest_of(self._vocabulary),
            shape.n_layers,
            shape.n_kv_heads,
            shape.head_dim,
            shape.dtype,
        )

    def n_known(self, token_ids: Sequence[int], *, salt: Salt = None) -> int:
        """How many tokens from the first on have their keys and values here."""
        return self._storage.tree.match(token_ids, len(token_ids), ("shared", salt)).n_tokens

    def read(
        self, token_ids: Sequence[int], *, salt: Salt = None, note: Mapping[str, Any] = NO_NOTE
    ) -> Session:
        """A copy of the keys and values of the longest beginning of a text that is known here."""
        self._require_prefix_cache()
        match = self._storage.tree.match(token_ids, len(token_ids), ("shared", salt))
        pages = [*match.pages, *(() if match.partial_page is None else (match.partial_page,))]
        return self._copy(token_ids[: match.n_tokens], pages, note)

    def read_request(self, request_id: int, *, branch: int = 0, note: Mapping[str, Any] = NO_NOTE) -> Session:
        """A copy of the keys and values of a request in flight: what has been read and written so far."""
        task = self._tasks.get(request_id)
        if task is None or branch not in task.branches:
            raise BadRequest(
                f"request {request_id} has no branch {branch} in flight; save the text of one that has ended",
                code="not_in_flight",
            )
        held = task.branches[branch]
        return self._copy(held.token_ids[: held.n_cached], held.table.pages.tolist(), note)

    def restore(self, session: Session, *, salt: Salt = None) -> None:
        """Know the text of a session from here on, until its pages are needed for others.

        All of it or nothing. Raises SessionFileError for one of another model (`session_mismatch`) or of
        other arithmetic (`session_stale`), CapacityError and ContextOverflow for one that has no room here.
        """
        self._require_prefix_cache()
        check_identity(session.origin, session.identity, self.identity)
        self._check(session)
        token_ids = session.token_ids.tolist()
        if token_ids:
            holding.restore(
                token_ids,
                self._storage,
                ("shared", salt),
                lambda pages, n_known: self._fill(session, pages, n_known),
            )

    def save(
        self,
        path: str | Path,
        token_ids: Sequence[int],
        *,
        salt: Salt = None,
        note: Mapping[str, Any] = NO_NOTE,
    ) -> Session:
        """Write what is known of a text to a file."""
        session = self.read(token_ids, salt=salt, note=note)
        write_session(path, session)
        return session

    def load(self, path: str | Path, *, salt: Salt = None) -> Session:
        """Know the text of a session file."""
        session = read_session(path, self.identity)
        self.restore(session, salt=salt)
        return session

    def _copy(self, token_ids: Sequence[int], pages: Sequence[int], note: Mapping[str, Any]) -> Session:
        runner, n_tokens = self._storage.runner, len(token_ids)
        values = np.empty((n_tokens, runner.kv_shape.token_bytes), np.uint8)
        for i, page in enumerate(pages[: pages_for(n_tokens, runner.page_size)]):
            part = values[i * runner.page_size : (i + 1) * runner.page_size]
            part[...] = runner.read_page(page)[: len(part)]
        return Session(self.identity, np.array(token_ids, np.int32), values, note)

    def _require_prefix_cache(self) -> None:
        if not self._prefix_cache:
            raise BadRequest(
                "this engine keeps no texts, so it has none to save and no place to load one; "
                "make it with prefix_cache=True",
                code="no_prefix_cache",
            )

    def _check(self, session: Session) -> None:
        """What the engine must know of a session before it takes a page for it."""
        ids, n_tokens, pool = session.token_ids, session.n_tokens, self._storage.pool
        shape = self._storage.runner.kv_shape
        if session.values.shape != (n_tokens, shape.token_bytes):
            raise SessionFileError(
                session.origin,
                "token_bytes",
                f"is {session.values.shape[1]} and must be {shape.token_bytes}; save the session again",
            )
        outside = ids[(ids < 0) | (ids >= self._n_vocab)]
        if outside.size:
            raise SessionFileError(
                session.origin,
                "token_ids",
                f"holds {outside[0]}, outside [0, {self._n_vocab}); save the session again",
            )
        if n_tokens > self._context_length:
            raise ContextOverflow(
                f"the session {session.origin} has {n_tokens} tokens and the context {self._context_length}; "
                f"raise {named('context_length')}, and {named('kv_tokens')} where that was given"
            )
        n_pages = pages_for(n_tokens, self._storage.page_size)
        if n_pages > pool.n_pages:
            raise CapacityError(
                f"the session {session.origin} has {n_tokens} tokens and the KV cache room for "
                f"{pool.n_pages * self._storage.page_size}; give more {named('kv_tokens')}"
            )

    def _fill(self, session: Session, pages: Sequence[int], n_known: int) -> None:
        runner, page_size = self._storage.runner, self._storage.page_size
        for i in range(n_known, len(pages)):
            part = session.values[i * page_size : (i + 1) * page_size]
            values = np.zeros((page_size, part.shape[1]), np.uint8)
            values[: len(part)] = part
            runner.write_page(pages[i], values)
        self._compute_some_again(session, pages, n_known)

    def _compute_some_again(self, session: Session, pages: Sequence[int], n_known: int) -> None:
        """The last token of each of some of the new pages, spread over all of them, and of the text."""
        runner, page_size = self._storage.runner, self._storage.page_size
        n_new = len(pages) - n_known
        if n_new == 0:
            return
        chosen = np.unique(np.linspace(n_known, len(pages) - 1, min(n_new, N_COMPUTED_AGAIN)).astype(int))
        positions = [min((i + 1) * page_size, session.n_tokens) - 1 for i in chosen.tolist()]
        runner.forward(_one_row_each(session.token_ids, positions, pages, page_size))
        for i, position in zip(chosen.tolist(), positions, strict=True):
            computed: U8 = runner.read_page(pages[i])[position % page_size]
            if not np.array_equal(computed, session.values[position]):
                raise SessionFileError(
                    session.origin,
                    "values",
                    f"token {position} comes out otherwise here: another version of unspool, another runner "
                    "or another instruction set computed them; save the session again",
                    code="session_stale",
                )


def _one_row_each(token_ids: I32, positions: Sequence[int], pages: Sequence[int], page_size: int) -> Plan:
    """A plan that computes the tokens at these positions, each on top of the text before it."""
    n_pages = [position // page_size + 1 for position in positions]
    return Plan(
        token_ids=np.ascontiguousarray(token_ids[positions], np.int32),
        seq_start=np.arange(len(positions) + 1, dtype=np.int32),
        n_past=np.array(positions, np.int32),
        page_table=np.array([page for n in n_pages for page in pages[:n]], np.int32),
        page_start=np.array([0, *np.cumsum(n_pages)], np.int32),
        logits_rows=np.empty(0, np.int32),
    )


def _digest_of(vocabulary: Vocabulary) -> str:
    """Of every token's bytes, and which of them end a text."""
    digest = hashlib.sha256(repr((vocabulary.vocab_size, sorted(vocabulary.eos_ids))).encode())
    joined, starts = vocabulary.all_token_bytes()
    digest.update(joined)
    digest.update(starts.astype("<i8").data)
    return digest.hexdigest()
