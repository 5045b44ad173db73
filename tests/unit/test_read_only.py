"""A dictionary that nobody changes."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from unspool.read_only import ReadOnly

CHANGES = [
    lambda one: one.__setitem__("a", 2),
    lambda one: one.__delitem__("a"),
    lambda one: one.__ior__({"b": 1}),
    lambda one: one.clear(),
    lambda one: one.pop("a"),
    lambda one: one.popitem(),
    lambda one: one.setdefault("b", 1),
    lambda one: one.update(b=1),
]


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_changes_it(change):
    one = ReadOnly({"a": 1})
    with pytest.raises(TypeError, match="read only"):
        change(one)
    assert one == {"a": 1}


def test_it_keeps_nothing_of_what_it_was_made_from():
    given = {"a": 1}
    one = ReadOnly(given)
    given["a"] = 2
    assert one == {"a": 1}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_is_read_only_wherever_it_goes(again):
    other = again(ReadOnly({"a": [1]}))
    assert (type(other), other) == (ReadOnly, {"a": [1]})
    assert json.dumps(other) == '{"a": [1]}'
