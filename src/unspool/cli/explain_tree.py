"""A search tree as lines that a person reads: hypotheses down the left, what became of each on the right.

Tokens without a fork between them share a line, so that the tree is as deep as the hypotheses differ and not
as long as the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from unspool.cli.explain_table import line, quoted
from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from rich.text import Text

    from unspool.search_tree import Considered, SearchStep, SearchTree

_COLUMNS: Final = (("hypothesis", -36), ("tokens", 7), ("logprob", 8), ("what became of it", -1))
_STEP_COLUMNS: Final = (
    ("", 2), ("#", 3), ("after", -14), ("token", -12), ("logprob", 7), ("in all", 8), ("", -1)
)  # fmt: skip
_DEEPEST: Final = 12  # levels that are indented; those below stand at the same place
_DROPPED: Final = {
    "rank": "outranked",
    "group": "taken by earlier group",
    "no room": "ends, too low in rank",
    "worse": "ended, below the rest",
    "stop rule": "the search had enough",
}


@dataclass(slots=True, eq=False)
class Node:
    """A run of tokens without a fork, and what follows it."""

    run: list[Considered]
    first: int  # number of its first token in the answer, from 1
    children: list[Node] = field(default_factory=list)
    what: str = ""
    style: str = ""

    @property
    def text(self) -> str:
        return quoted("".join(each.text for each in self.run))

    @property
    def tokens(self) -> str:
        last = self.first + len(self.run) - 1
        return str(last) if last == self.first else f"{self.first}-{last}"


def forest_of(tree: SearchTree) -> list[Node]:
    """The first nodes, by group and then as the search ranked them."""
    rank_of = {branch: (rank, score) for rank, (branch, score) in enumerate(tree.answers, start=1)}
    given_up = {branch for step in tree.steps for branch in step.given_up}
    root = Node([], 0)
    live: dict[int, Node] = {0: root}
    for step in tree.steps:
        now: dict[int, Node] = {}
        for each in sorted(step.considered, key=lambda c: (c.group, c.place)):
            if each.fate == "dropped":
                continue
            node = Node([each], step.n_tokens)
            live[each.parent].children.append(node)
            assert each.branch is not None, "what was kept has a branch"
            if each.fate == "kept":
                now[each.branch] = node
                continue
            node.what, node.style = _ended(each, rank_of, given_up)
        for branch, parent in live.items():
            if parent is not root and not parent.children:
                parent.what, parent.style = _why_none(step, branch), "red"
        live = now
    for branch, node in live.items():
        if branch in rank_of:
            node.what, node.style = f"answer {rank_of[branch][0]}, as it stands", "green"
        else:
            node.what, node.style = "not told any further" if tree.n_untold else "was still alive", "dim"
    for node in root.children:
        _join(node)
    return root.children


def _join(node: Node) -> None:
    """Take in what follows without a fork."""
    while len(node.children) == 1:
        (only,) = node.children
        node.run += only.run
        node.children, node.what, node.style = only.children, only.what, only.style
    for child in node.children:
        _join(child)


def _ended(each: Considered, rank_of: dict[int, tuple[int, float]], given_up: set[int]) -> tuple[str, str]:
    assert each.branch is not None, "what ended has a branch"
    assert each.score is not None, "and a score"
    if each.branch in rank_of:
        return f"answer {rank_of[each.branch][0]}, score {each.score:.3f}", "green"
    return f"{'given up at' if each.branch in given_up else 'ended, score'} {each.score:.3f}", "yellow"


def _why_none(step: SearchStep, branch: int) -> str:
    """Why nothing of a hypothesis has lived on."""
    whys = [each.why for each in step.considered if each.parent == branch and each.why is not None]
    for why in ("stop rule", "group"):
        if why in whys:
            return _DROPPED[why]
    return f"outranked at token {step.n_tokens}"


def print_tree(tree: SearchTree, expanded: frozenset[int], *, expands_all: bool) -> None:
    """Print the tree, and below it what each step looked at where that is asked for: in colour on a terminal
    (unless NO_COLOR is set), plain into a pipe."""
    from rich.console import Console

    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    for each in [*_tree_lines(tree), *_step_lines(tree, expanded, expands_all=expands_all)]:
        console.print(each, soft_wrap=True)


def _tree_lines(tree: SearchTree) -> Iterator[Text]:
    yield line(_COLUMNS, [heading for heading, _ in _COLUMNS], ["dim"] * 4)
    nodes = forest_of(tree)
    groups = sorted({each.group for step in tree.steps for each in step.considered})
    stays = all(_stays(node, node.run[0].group) for node in nodes)
    if len(groups) > 1 and stays:
        for group in groups:
            yield line(_COLUMNS, [f"group {group + 1}", "", "", ""], ["cyan", "", "", ""])
            yield from _below([node for node in nodes if node.run[0].group == group], "")
    else:
        yield from _below(nodes, "")
    n_dropped = sum(each.fate == "dropped" for step in tree.steps for each in step.considered)
    more = f"{n_dropped} more were looked at and dropped at once; --expand N lists step N"
    yield line((("", -1),), [more], ["dim"])
    if tree.n_untold:
        note = f"{tree.n_untold} later steps are not told: a tree has room for so much and no more"
        yield line((("", -1),), [note], ["bold"])


def _stays(node: Node, group: int) -> bool:
    """Whether hypotheses stay in their group: banks of a constrained beam are left for others."""
    return all(each.group == group for each in node.run) and all(_stays(c, group) for c in node.children)


def _below(nodes: Sequence[Node], indent: str) -> Iterator[Text]:
    for node in nodes:
        is_last = node is nodes[-1]
        cells = [
            f"{indent}{'└' if is_last else '├'} {node.text}",
            node.tokens,
            f"{node.run[-1].total_logprob:.3f}",
            node.what or "forks",
        ]
        shade = node.style or "dim"
        yield line(_COLUMNS, cells, ["bold" if node.style == "green" else "", "dim", "", shade])
        deeper = indent + ("  " if is_last else "│ ")
        yield from _below(node.children, deeper if len(indent) < 2 * _DEEPEST else indent)


def _step_lines(tree: SearchTree, expanded: frozenset[int], *, expands_all: bool) -> Iterator[Text]:
    texts: dict[int, str] = {0: ""}
    for step in tree.steps:
        if expands_all or step.n_tokens in expanded:
            yield line((("", -1),), [f"step {step.n_tokens}"], ["cyan"])
            yield line(_STEP_COLUMNS, [heading for heading, _ in _STEP_COLUMNS], ["dim"] * 7)
            yield from (_considered(each, texts) for each in step.considered)
        texts = {
            each.branch: texts.get(each.parent, "") + each.text
            for each in step.considered
            if each.branch is not None and each.fate == "kept"
        }


def _considered(each: Considered, texts: dict[int, str]) -> Text:
    what: str = each.fate
    style = {"kept": "green", "finished": "yellow", "dropped": "red"}[each.fate]
    if each.why is not None:
        what = _DROPPED[each.why]
    elif each.score is not None:
        what = f"finished, {each.score:.3f}"
    tail = quoted(texts.get(each.parent, ""))
    cells = [
        "" if each.group == 0 else f"g{each.group + 1}",
        str(each.place),
        tail if len(tail) <= 14 else f"…{tail[-13:]}",
        quoted(each.text),
        f"{each.logprob:.3f}",
        f"{each.total_logprob:.3f}",
        what,
    ]
    return line(_STEP_COLUMNS, cells, ["cyan", "dim", "dim", "bold", "", "", style])
