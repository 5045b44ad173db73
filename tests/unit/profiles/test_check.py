"""A check finds everything that is wrong with a profile at once."""

from __future__ import annotations

import pytest

from unspool.profiles.check import check_profile

BAD = """
tempreture = 0.5

[top_p]
value = 1.4
reason = "too much"

[top_k]
value = "many"

[min_p]
value = 0.0
reason = "off"

[needs.beam]
width = 4
"""


def test_every_problem_is_found_with_its_key(write) -> None:
    assert [str(finding) for finding in check_profile(write(BAD))] == [
        "error: description: is missing; say in one line what it is for",
        "error: tempreture: there is no parameter 'tempreture'; did you mean 'temperature'?",
        'error: tempreture: has no reason; add `reason = "..."` to its table',
        "error: top_p: top_p must be a number in (0, 1], got 1.4; 1 turns it off; for greedy decoding set "
        "temperature=0",
        "error: top_k: top_k must be a whole number at least 0, got 'many'; 0 turns it off",
        'error: top_k: has no reason; add `reason = "..."` to its table',
        "warning: min_p: 0.0 is the default already, so it changes nothing",
        'error: needs.beam: has no reason; add `reason = "..."` to its table',
        'error: needs.beam.width: has no reason; add `reason = "..."` to its table',
    ]


def profile_of(**values: object) -> str:
    tables = [f"[{name}]\nvalue = {value}\nreason = 'r'\n" for name, value in values.items()]
    return "description = 'd'\n" + "".join(tables)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            profile_of(mirostat=2, top_p=0.5),
            "error: mirostat replaces every truncation; got mirostat=2 and top_p=0.5; keep one",
        ),
        (profile_of(dynatemp_min=0.5), "error: dynatemp_min and dynatemp_max go together"),
        (profile_of(order="['temperature']", top_k=5), "error: top_k is 5 and order=('temperature',) leaves"),
        (profile_of(temperature=0, seed=5), "warning: seed: changes nothing beside the other values"),
        (profile_of(xtc_threshold=0.2), "warning: xtc_threshold: changes nothing beside"),
        ("description = 'd'\n", "error: sets nothing; give at least one parameter"),
    ],
)
def test_values_that_do_not_go_together_are_found(write, content: str, said: str) -> None:
    (finding,) = check_profile(write(content))
    assert str(finding).startswith(said)


def test_a_good_profile_has_nothing_to_find(write) -> None:
    assert check_profile(write(profile_of(dynatemp_min=0.5, dynatemp_max=1.5, max_tokens='"none"'))) == []
