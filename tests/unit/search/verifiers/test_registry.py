"""Verifiers by name, ours and those of other packages."""

from __future__ import annotations

from importlib import metadata

import pytest
from answers import answer

from unspool.errors import BadRequest, VerifierError
from unspool.search.verifiers import registry
from unspool.search.verifiers.base import Alone, Verdict


class Shouts(Alone):
    """Registered by the tests."""

    def __init__(self, mark="!"):
        self.mark = mark

    def __call__(self, prompt, completion):
        return Verdict(float(completion.text.count(self.mark)))


@pytest.fixture
def installed(monkeypatch):
    """Other packages that have registered verifiers."""
    found = [
        metadata.EntryPoint("shouts", f"{__name__}:Shouts", registry.GROUP),
        metadata.EntryPoint("regex", f"{__name__}:Shouts", registry.GROUP),
        metadata.EntryPoint("lost", "no_such_module:X", registry.GROUP),
    ]

    def entry_points(*, group, name=None):
        assert group == "unspool.verifiers"
        return [point for point in found if name in (None, point.name)]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda self: _load(self))


def _load(point):
    if "no_such" in point.value:
        raise ModuleNotFoundError("No module named 'no_such_module'")
    return Shouts


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_name_of_ours_leads_to_a_verifier_with_a_docstring(name):
    maker = registry.find(name)
    assert maker.__doc__
    assert callable(maker.__call__)
    assert hasattr(maker, "rank")


def test_an_installed_package_adds_verifiers_but_takes_no_name_of_ours(installed):
    assert registry.names()[-2:] == ["lost", "shouts"]
    assert registry.make("shouts", mark="?")("", answer("what??")).score == 2
    assert registry.find("regex").__name__ == "Regex"


def test_settings_are_of_the_kind_that_is_declared():
    for name, settings, said in [
        ("regex", {"pattern": "x", "whole": 1}, "whole of verifier regex must be true or false, got 1"),
        (
            "mean-logprob",
            {"accept_at": "high"},
            "accept_at of verifier mean-logprob must be a number or none",
        ),
        ("mean-logprob", {"accept_at": True}, "must be a number or none"),
        ("citations", {"sources": {"1": "a"}, "min_words": 2.5}, "a whole number"),
        (
            "python-tests",
            {"tests": "assert 1", "limits": {"cpu": 1}},
            "limits of verifier python-tests: .*cpu",
        ),
        ("llm-judge", {"base_url": "http://x", "model": 3}, "a text"),
    ]:
        with pytest.raises(BadRequest, match=said):
            registry.make(name, **settings)


def test_parts_of_a_verifier_may_be_given_as_mappings():
    limits = registry.make("python-tests", tests="assert 1", limits={"cpu_s": 2}).limits
    assert limits.cpu_s == 2
    prompt = {"system": "", "user": "{completion}", "score_pattern": r"(\d)", "lowest": 0, "highest": 9}
    assert registry.make("llm-judge", base_url="http://x", model="m", prompt=prompt).prompt.highest == 9


def test_what_cannot_be_found_imported_or_set_is_named(installed):
    with pytest.raises(BadRequest, match="did you mean 'regex'"):
        registry.find("regexp")
    with pytest.raises(VerifierError, match="no_such_module"):
        registry.find("lost")
    with pytest.raises(BadRequest, match="it takes: pattern, whole, ignore_case"):
        registry.make("regex", patern="x")
    with pytest.raises(BadRequest, match="verifier majority: missing"):
        registry.make("majority")
