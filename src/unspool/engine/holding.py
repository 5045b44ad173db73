"""The pages that branches hold: found in the prefix tree, taken for a step, left to the tree, given back.

The part of `commit` that knows pages: nothing else changes them, or what a branch has in them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from unspool.engine.share import Share
from unspool.engine.storage import Storage
from unspool.engine.strand import Strand
from unspool.engine.task import Branch, Phase, Task
from unspool.errors import UnspoolError
from unspool.kv.prefix_tree import Match
from unspool.kv.table import PageTable
from unspool.types import Drop, Finish, Fork, Move


def adopt(share: Share, match: Match, storage: Storage, n_spare: int) -> int:
    """Give a strand the pages of a match, as far as they take no more than n_spare pages from others.
    Returns how many they take. What cannot be copied of them is read instead, as if it had not been found."""
    strand, n_available = share.strand, storage.pool.n_available
    n_cached, copy = strand.table.adopt(_affordable(match, storage, n_spare))
    if copy is not None:
        try:
            storage.runners[share.model].copy_page(*copy)
        except Exception as error:
            n_cached -= n_cached % storage.page_size  # its own page is written from the first place on
            storage.journal.not_copied(share.task, error)
        except BaseException:
            strand.table.release()  # or the next try would take what is in the page for a copy
            raise
    strand.n_cached = n_cached
    if strand.n_read == 0 and share.companion is None:
        share.task.n_prompt_cached = n_cached
    strand.n_read = max(strand.n_read, n_cached)
    storage.journal.tokens_found += n_cached
    return n_available - storage.pool.n_available


def _affordable(match: Match, storage: Storage, n_spare: int) -> Match:
    """The longest part of a match that takes at most n_spare pages from others."""
    n_taken = 0
    for i, page in enumerate(match.pages):
        n_taken += storage.pool.holders(page) == 0
        if n_taken > n_spare:
            return Match(match.pages[:i], None, i * storage.page_size)
    if match.partial_page is not None and n_taken == n_spare:
        return Match(match.pages, None, len(match.pages) * storage.page_size)
    return match


def restore(
    token_ids: Sequence[int], storage: Storage, salt: Hashable, fill: Callable[[list[int], int], None]
) -> None:
    """Take pages for a whole text, have them filled, and leave them to the prefix tree.

    `fill(pages, n_known)` writes pages[n_known:]; the tree has the others already. Whatever it raises,
    nothing of this text stays behind.
    """
    table = PageTable(storage.pool, storage.page_size)
    match = storage.tree.match(token_ids, len(token_ids), salt)
    try:
        table.adopt(Match(match.pages, None, len(match.pages) * storage.page_size))
        table.grow(len(token_ids))
        fill(table.pages.tolist(), len(match.pages))
        storage.tree.insert(token_ids, len(token_ids), table.pages.tolist(), salt)
    finally:
        table.release()


def reserve(shares: Sequence[Share], storage: Storage) -> None:
    """Before the forward pass: pages for all its rows."""
    now = storage.journal.clock()
    for share in shares:
        share.strand.table.grow(share.strand.n_cached + share.n_rows)
        if share.task.clock.started is None:
            share.task.clock.started = now
            storage.journal.started(share.task, now)


def record(shares: Sequence[Share], storage: Storage) -> None:
    """After the forward pass: its rows are in the cache, and whole pages of prompts in the prefix tree."""
    for share in shares:
        task, strand = share.task, share.strand
        strand.n_cached += share.n_rows
        if share.is_prompt:
            n_new = min(max(strand.n_cached - strand.n_read, 0), share.n_rows)
            task.n_reread += share.n_rows - n_new
            storage.journal.tokens_read += n_new
            storage.journal.tokens_reread += share.n_rows - n_new
            n_whole = strand.n_cached - strand.n_cached % storage.page_size
            owner = task.owner_of(share.companion)
            strand.in_tree, others = storage.tree.insert(
                strand.token_ids, n_whole, strand.table.pages.tolist(), owner, strand.in_tree
            )
            for index, page in others:  # read twice at once: promise 1 makes the pages equal
                strand.table.replace(index, page)
        strand.n_read = max(strand.n_read, strand.n_cached)
        resume(task)


def resume(task: Task) -> None:
    """A task that was put back, or has companions, decodes when all its strands have one token to feed."""
    if task.phase is Phase.PREFILL and task.leaves_last:
        strands = (strand for branch in task.branches.values() for strand in branch.strands)
        if all(strand.n_to_feed == 1 for strand in strands):
            task.move_to(Phase.DECODE)


def preempt(task: Task, storage: Storage) -> None:
    """Put a task back for want of pages."""
    n_dropped = task.n_tokens_cached
    put_back(task, storage)
    task.n_preempted += 1
    storage.journal.preempted(task, n_dropped)


def put_back(task: Task, storage: Storage) -> None:
    """Take a task's pages from it; it may find them again in the prefix tree."""
    for branch in task.branches.values():
        _let_go(task, branch, storage)
    if not task.has_output:
        task.prompt_logprobs = []
    task.move_to(Phase.WAITING)


def _let_go(task: Task, branch: Branch, storage: Storage) -> None:
    """Take a branch's pages from it, and leave them to the tree."""
    _leave(task, branch, storage)
    for strand in branch.strands:
        strand.n_cached = 0


def tables_for_forks(
    task: Task, moves: Sequence[Move], storage: Storage
) -> Mapping[int, Sequence[PageTable]]:
    """Before any move is made: the pages of every branch that will be born and of its companions, with what
    has to be copied for them. Branches that end before a fork give up theirs.

    Raises UnspoolError, and holds none of these pages, where one cannot be copied.
    """
    born: dict[int, list[tuple[PageTable, int]]] = {}  # of each strand, with how many tokens it shares
    last = max((i for i, move in enumerate(moves) if isinstance(move, Fork)), default=-1)
    try:
        for move in moves[: last + 1]:
            if isinstance(move, Fork):
                source = born.get(move.branch) or [
                    (strand.table, strand.n_cached) for strand in task.branches[move.branch].strands
                ]
                own = born[move.child] = []
                for i, (table, n_cached) in enumerate(source):
                    model = task.model_of(i - 1 if i else None)
                    own.append((_fork(table, n_cached, model, storage), n_cached))
            elif isinstance(move, (Drop, Finish)) and move.branch in task.branches:
                _let_go(task, task.branches[move.branch], storage)
    except BaseException:
        for tables in born.values():
            for table, _ in tables:
                table.release()
        raise
    return {child: [table for table, _ in own] for child, own in born.items()}


def remove(task: Task, branch: Branch, storage: Storage) -> None:
    """A branch leaves its task, and its pages are left to the tree; a private task leaves nothing there."""
    if task.kept.pop(branch.branch_id, None) is None:
        del task.branches[branch.branch_id]
        _leave(task, branch, storage)
    if not task.branches and task.is_private:
        for companion in (None, *range(len(task.companions))):
            storage.tree.forget(task.owner_of(companion))


def _leave(task: Task, branch: Branch, storage: Storage) -> None:
    """Give up a branch's pages and its companions'; the tree keeps them for who has the same text."""
    _leave_strand(branch, task.salt, storage)
    for i, strand in enumerate(branch.companions):
        _leave_strand(strand, task.owner_of(i), storage)


def _leave_strand(strand: Strand, owner: Hashable, storage: Storage) -> None:
    pages = strand.table.pages.tolist()
    storage.tree.insert(strand.token_ids, strand.n_cached, pages, owner, strand.in_tree)
    strand.table.release()
    strand.in_tree = None


def _fork(table: PageTable, n_cached: int, model: int, storage: Storage) -> PageTable:
    """A table that goes on from the first n_cached tokens of another; it holds nothing if that raises."""
    child, copy = table.fork(n_cached)
    if copy is not None:
        try:
            storage.runners[model].copy_page(*copy)
        except BaseException as error:
            child.release()
            if isinstance(error, UnspoolError) or not isinstance(error, Exception):
                raise
            raise UnspoolError(
                f"a page of the KV cache could not be copied for another branch: {error!r}",
                code="copy_failed",
            ) from error
    return child
