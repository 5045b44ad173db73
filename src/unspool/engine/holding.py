"""The pages that branches hold: found in the prefix tree, taken for a step, left to the tree, given back.

The part of `commit` that knows pages: nothing else changes them, or what a branch has in them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from unspool.engine.share import Share
from unspool.engine.storage import Storage
from unspool.engine.task import Branch, Phase, Task
from unspool.kv.prefix_tree import Match
from unspool.kv.table import PageTable


def adopt(task: Task, branch: Branch, match: Match, storage: Storage, n_spare: int) -> int:
    """Give a branch the pages of a match, as far as they take no more than n_spare pages from others.
    Returns how many they take."""
    n_available = storage.pool.n_available
    n_cached, copy = branch.table.adopt(_affordable(match, storage, n_spare))
    if copy is not None:
        try:
            storage.runner.copy_page(*copy)
        except BaseException:
            branch.table.release()  # or the next try would take what is in the page for a copy
            raise
    branch.n_cached = n_cached
    if branch.n_read == 0:
        task.n_prompt_cached = branch.n_cached
    branch.n_read = max(branch.n_read, branch.n_cached)
    storage.journal.tokens_found += branch.n_cached
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
        share.branch.table.grow(share.branch.n_cached + share.n_rows)
        if share.task.clock.started is None:
            share.task.clock.started = now
            storage.journal.started(share.task, now)


def record(shares: Sequence[Share], storage: Storage) -> None:
    """After the forward pass: its rows are in the cache, and whole pages of prompts in the prefix tree."""
    for share in shares:
        task, branch = share.task, share.branch
        branch.n_cached += share.n_rows
        if share.is_prompt:
            n_new = min(max(branch.n_cached - branch.n_read, 0), share.n_rows)
            task.n_reread += share.n_rows - n_new
            storage.journal.tokens_read += n_new
            storage.journal.tokens_reread += share.n_rows - n_new
            n_whole = branch.n_cached - branch.n_cached % storage.page_size
            branch.in_tree, others = storage.tree.insert(
                branch.token_ids, n_whole, branch.table.pages.tolist(), task.salt, branch.in_tree
            )
            for index, page in others:  # read twice at once: promise 1 makes the pages equal
                branch.table.replace(index, page)
        branch.n_read = max(branch.n_read, branch.n_cached)
        resume(task)


def resume(task: Task) -> None:
    """A task that was put back decodes again when all its branches have but one token to feed."""
    is_resuming = task.phase is Phase.PREFILL and task.has_output
    if is_resuming and all(branch.n_to_feed == 1 for branch in task.branches.values()):
        task.move_to(Phase.DECODE)


def preempt(task: Task, storage: Storage) -> None:
    """Put a task back for want of pages."""
    n_dropped = sum(branch.n_cached for branch in task.branches.values())
    put_back(task, storage)
    task.n_preempted += 1
    storage.journal.preempted(task, n_dropped)


def put_back(task: Task, storage: Storage) -> None:
    """Take a task's pages from it; it may find them again in the prefix tree."""
    for branch in task.branches.values():
        _leave(task, branch, storage)
        branch.n_cached = 0
    if not task.has_output:
        task.prompt_logprobs = []
    task.move_to(Phase.WAITING)


def remove(task: Task, branch: Branch, storage: Storage) -> None:
    if task.kept.pop(branch.branch_id, None) is None:
        del task.branches[branch.branch_id]
        _leave(task, branch, storage)
    if not task.branches and task.is_private:
        storage.tree.forget(task.salt)


def _leave(task: Task, branch: Branch, storage: Storage) -> None:
    """Give up a branch's pages; the prefix tree keeps them for who has the same text."""
    pages = branch.table.pages.tolist()
    storage.tree.insert(branch.token_ids, branch.n_cached, pages, task.salt, branch.in_tree)
    branch.table.release()
    branch.in_tree = None
