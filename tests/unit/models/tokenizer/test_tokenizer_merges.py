"""Merges from scores: the fast way against the two loops it replaces."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.models.tokenizer.merges import derive_merges


def by_two_loops(pieces: list[str], scores: list[float]) -> list[tuple[str, str]]:
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for whole in sorted(range(len(pieces)), key=lambda i: -scores[i]):
        piece = pieces[whole]
        cuts = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        known = [(ids[left], ids[right]) for left, right in cuts if left in ids and right in ids]
        merges += [(pieces[left], pieces[right]) for left, right in sorted(known)]
    return merges


def test_every_way_to_cut_a_piece_into_pieces_is_a_merge() -> None:
    pieces = ["a", "b", "ab", "ba", "aba", "zz"]
    assert derive_merges(pieces, np.array([0.0, 0, -1, -2, -3, -4])) == [
        ("a", "b"),
        ("b", "a"),
        ("a", "ba"),
        ("ab", "a"),
    ]


def test_the_best_score_comes_first_and_ties_go_to_the_lower_id() -> None:
    pieces = ["a", "aa", "aaa"]
    assert derive_merges(pieces, np.array([0.0, -5, 3])) == [("a", "aa"), ("aa", "a"), ("a", "a")]
    assert derive_merges(["b", "a", "ab", "ba"], np.zeros(4)) == [("a", "b"), ("b", "a")]


def test_no_pieces_no_merges() -> None:
    assert derive_merges([], np.zeros(0)) == []
    assert derive_merges(["a"], np.zeros(1)) == []


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(
        st.text(alphabet="ab▁é😀", min_size=1, max_size=8) | st.text(min_size=1), unique=True, max_size=60
    ),
    data=st.data(),
)
def test_the_arrays_find_what_two_loops_find(pieces: list[str], data: st.DataObject) -> None:
    scores = data.draw(st.lists(st.integers(-5, 5).map(float), min_size=len(pieces), max_size=len(pieces)))
    assert derive_merges(pieces, np.array(scores, dtype=np.float64)) == by_two_loops(pieces, scores)


def test_periodic_pieces_do_not_confuse_the_hashes() -> None:
    # Runs and Thue-Morse words are the classic way to break sums modulo a power of two.
    morse = "a"
    while len(morse) < 256:
        morse += morse.translate(str.maketrans("ab", "ba"))
    pieces = sorted(
        {morse[i : i + n] for n in (1, 2, 3, 64, 128) for i in range(128)} | {"a" * n for n in range(1, 99)}
    )
    scores = [-float(i) for i in range(len(pieces))]
    assert derive_merges(pieces, np.array(scores)) == by_two_loops(pieces, scores)
