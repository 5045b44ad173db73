"""`unspool bench`: tables and JSON of where a step's time goes."""

from __future__ import annotations

import json

import pytest
from tiny_llm import write_tiny_llm


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf")


def test_each_pass_has_a_table_with_the_longest_first(unspool, path):
    ran = unspool(
        "bench", "-m", str(path), "--rows", "1,2", "--prompt", "16", "--context", "8", "--rounds", "2"
    )
    assert ran.exit_code == 0, ran.err
    assert "this machine at most:" in ran.out
    tables = [part for part in ran.out.split("\n\n")[1:] if not part.startswith("note: ")]
    assert [table.partition(":")[0] for table in tables] == ["decode 1", "decode 2", "prompt 16"]
    for table in tables:
        head, *rows = table.strip().splitlines()[1:]
        assert head.split()[-4:] == ["MS", "SHARE", "GB/S", "GMAC/S"]
        times = [float(row.split()[1]) for row in rows]
        assert times == sorted(times, reverse=True)


def test_a_busy_machine_is_noted(unspool, path, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (999.0, 0.0, 0.0), raising=False)
    how = ("bench", "-m", str(path), "--rows", "1", "--prompt", "0", "--context", "8", "--rounds", "1")
    assert "\n\nnote: the load average was 999.0 on " in unspool(*how).out
    told = json.loads(unspool(*how, "--json").out)
    assert told["load_average"] == 999
    assert any("the load average was 999.0" in doubt for doubt in told["doubts"])


def test_json_has_the_same(unspool, path):
    ran = unspool("bench", "-m", str(path), "--rows", "2", "--prompt", "0", "--context", "8", "--json")
    told = json.loads(ran.out)
    assert [each["name"] for each in told["passes"]] == ["decode 2"]
    assert {"kind", "ms", "share", "gb_per_s", "gmac_per_s"} == set(told["passes"][0]["kinds"][0])
    assert told["weight_bytes"] > 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--rows", "one"), "--rows must be a whole number in [1, 1024], got 'one'"),
        (("--rows", "1,,2"), "--rows must be a whole number in [1, 1024], got ''"),
        (("--rows", "0"), "--rows must be a whole number in [1, 1024], got 0; leave it out for the default"),
        (("--prompt", "-1"), "--prompt must be a whole number in [0, 1048576], got -1; leave"),
        (("--rounds", "-1"), "--rounds must be a whole number in [1, 100000], got -1; leave"),
        (("--threads", "257"), "--threads must be a whole number in [1, 256], got 257; leave it out"),
        (("--rows", "", "--prompt", "0"), "nothing to measure"),
        (
            ("--context", "4096"),
            "--prompt 256 and --context 4096 need 4097 tokens, and the model's context is 128; give",
        ),
    ],
)
def test_mistakes_are_one_line(unspool, path, flags, said):
    ran = unspool("bench", "-m", str(path), *flags)
    assert ran.exit_code != 0
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1
