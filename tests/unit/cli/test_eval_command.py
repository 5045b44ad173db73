"""`unspool eval` on a tiny model: what it prints, and that an interrupted run says what a whole one says."""

from __future__ import annotations

import json

import pytest
from tiny_llm import write_tiny_llm

from unspool.cli.eval_progress import eval_progress
from unspool.cli.eval_table import empty_note
from unspool.evals import answering
from unspool.evals.question import Answer
from unspool.runners.native import instruction_sets

PROBLEMS = [
    {
        "task_id": f"Own/{i}",
        "prompt": f'def f{i}():\n    """\n    >>> f{i}()\n    1\n    """\n',
        "entry_point": f"f{i}",
        "test": "def check(candidate):\n    assert candidate() == 1\n",
    }
    for i in range(3)
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf", context_length=1024))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def humaneval(unspool, model, tmp_path):
    data = tmp_path / "problems.jsonl"
    data.write_text("".join(json.dumps(each) + "\n" for each in PROBLEMS))

    def run(*arguments):
        given = ("--model", model, "--data", str(data), "--threads", "1", "--max-tokens", "6", *arguments)
        return unspool("eval", "humaneval", *given)

    return run


@pytest.fixture
def arithmetic(unspool, model):
    return lambda *arguments: unspool(
        "eval", "arithmetic", "--model", model, "--threads", "1", "--max-tokens", "6", *arguments
    )


def test_humaneval_prints_its_figures_and_says_where_the_answers_are(humaneval, cache):
    ran = humaneval("-n", "2", "--k", "2,1,1")
    assert ran.exit_code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].split("  ")[0] == "FIGURE"
    names = ["pass@1, greedy", "pass@1 of 2 samples", "pass@2 of 2 samples"]
    names += ["best of 2 by shown examples", "margin over one sample"]
    assert [line.split("  ")[0] for line in lines[1:]] == names
    assert "0.000" in lines[1]
    assert "+0.000 to +0.000" in lines[-1]
    (file,) = (cache / "evals").iterdir()
    assert file.name.startswith("humaneval-tiny-")
    assert len(file.read_text().splitlines()) == 1 + 3 * 3
    assert f"9 answers | 54 tokens | cut at the longest length: 9 | {file}" in ran.err
    assert "of 9 answers" in ran.err  # progress, a line each tenth


def test_the_same_command_goes_on_and_says_the_same(humaneval, tmp_path, monkeypatch):
    out = tmp_path / "answers.jsonl"
    whole = humaneval("-n", "3", "--json")
    assert whole.exit_code == 0, whole.err

    def interrupted(*arguments, **how):
        real(*arguments, **{**how, "concurrency": 1, "watch": stop})

    def stop(answers):
        raise KeyboardInterrupt

    real = answering.answer_all
    with monkeypatch.context() as patched:
        patched.setattr(answering, "answer_all", interrupted)
        ran = humaneval("-n", "3", "--out", str(out))
    assert ran.exit_code == 130
    assert f" in {out}; the same command goes on" in ran.err
    n_lines = len(out.read_text().splitlines())
    assert 1 < n_lines < 13
    with monkeypatch.context() as patched:
        patched.setattr(answering, "answer_all", interrupted)
        ran = humaneval("-n", "3", "--out", str(out), "--json")
    told = json.loads(ran.out)
    assert (ran.exit_code, told["finish_reason"], told["figures"]) == (130, "cancelled", [])
    assert told["file"] == str(out)
    kept = [json.loads(line)["question"] for line in out.read_text().splitlines()[1:]]
    for problem in told["problems"]:
        assert len(problem["greedy"]) + len(problem["sample"]) == kept.count(problem["name"])
    out.write_bytes(
        out.read_bytes() + b'{"question": "Own/1", "series": "sam'
    )  # as a power cut would leave it
    ran = humaneval("-n", "3", "--json", "--out", str(out))
    assert "not written again" in ran.err
    told, wanted = json.loads(ran.out), json.loads(whole.out)
    assert told.pop("file") == str(out)
    assert wanted.pop("file") != str(out)
    assert told == wanted
    again = humaneval("-n", "3", "--json", "--out", str(out), "--quiet")
    assert (again.err, json.loads(again.out)["problems"]) == ("", wanted["problems"])


def test_json_has_settings_figures_and_every_answer_s_marks(humaneval, model):
    ran = humaneval("-n", "1", "--limit", "2", "--json", "--temperature", "0.7", "--form", "raw")
    told = json.loads(ran.out)
    assert told["settings"]["sample"]["temperature"] == 0.7
    assert told["settings"]["greedy"]["temperature"] == 0
    assert (told["settings"]["form"], told["settings"]["sample"]["seed"]) == ("raw", 0)
    assert len(told["settings"]["problems_sha256"]) == 64
    assert [problem["name"] for problem in told["problems"]] == ["Own/0", "Own/1"]
    (mark,) = told["problems"][0]["sample"]
    assert (mark["passed"], mark["finish_reason"], mark["n_tokens"]) == (False, "length", 6)
    assert told["figures"][0]["interval"]["confidence"] == 0.95


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        (
            ["--temperature", "0.5"],
            ["--temperature", "0.6"],
            "has answers with sample.temperature = 0.5, and 0.6 is asked for",
        ),
        (["--top-k", "5"], [], "has answers with sample.top_k = 5, and its default is asked for"),
        (
            ["--search", "beam:width=2"],
            ["--search", "beam:width=3,alpha=0.5"],
            "has answers with search = beam:width=2, and beam:width=3,alpha=0.5 is asked for; give --out",
        ),
        (
            ["--search", "beam"],
            ["--search", "diverse-beam:groups=2"],
            "has answers with search = beam, and diverse-beam is asked for; give --out",
        ),
        ([], ["--search", "beam:width=3"], "has answers with search = None, and beam:width=3 is asked for"),
        (["--form", "raw"], ["--form", "chat"], "has answers with form = 'raw', and 'chat' is asked for"),
        (["--seed", "1"], [], "has answers with sample.seed = 1, and 0 is asked for"),
    ],
)
def test_answers_of_other_settings_are_refused_until_they_are_to_be_forgotten(
    humaneval, tmp_path, first, then, says
):
    out = ["-n", "1", "--no-greedy", "--limit", "1", "--out", str(tmp_path / "a.jsonl")]
    assert humaneval(*out, *first).exit_code == 0
    ran = humaneval(*out, *then)
    assert ran.exit_code == 2
    assert says in ran.err
    assert "--fresh" in ran.err
    assert humaneval(*out, *then, "--fresh").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-n", "2", "--k", "1,5"], "pass@5 needs -n of at least 5, got 2"),
        (
            ["-n", "0", "--k", "7"],
            "--k 7 is of samples, and -n 0 has none; leave --k out, or give -n of at least 7",
        ),
        (["-n", "x"], "-n must be a whole number in [0, 1000000], got 'x'"),
        (["--k", "0"], "--k must be a whole number, at least 1, got 0; leave it out"),
        (["--k", "1,"], "--k must be a whole number, at least 1, got ''"),
        (["-n", "0", "--no-greedy"], "leave nothing to do"),
        (["--temperature", "0"], "temperature 0 makes 10 equal answers"),
        (
            ["--form", "odd"],
            "--form must be one of fill, chat, raw, got 'odd'; leave it out for fill, or raw",
        ),
        (["--concurrency", "0"], "--concurrency must be a whole number in [1, 1024]"),
        (["--limit", "0"], "--limit must be a whole number in [1, 3], got 0; leave it out for the default"),
        (["--limit", "4"], "--limit must be a whole number in [1, 3], got 4; leave it out for the default"),
        (
            ["--out", "/nowhere/at/all/a.jsonl"],
            "--out /nowhere/at/all/a.jsonl: there is no folder /nowhere/at/all; make it, or name another",
        ),
        (["--data", "/nowhere"], "give --data a file"),
        (["--set", "deadline_s=1"], "deadline_s=1 makes answers depend on how fast this machine is"),
        (
            ["--set", "contrast_beta=0.5"],
            "contrast_beta=0.5 is a contrast, which needs a second model; add --amateur",
        ),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(humaneval, arguments, says):
    ran = humaneval(*arguments)
    assert ran.exit_code == 2
    assert says in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_a_cache_folder_that_takes_no_answers_is_refused_in_one_line(arithmetic, cache):
    cache.write_text("a file is no folder")
    ran = arithmetic("--problems", "1", "-n", "1", "--quiet")
    assert (ran.exit_code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"{cache / 'evals'}: Not a directory; give --out a file in another folder" in ran.err


def test_greedy_alone_needs_no_samples(humaneval):
    ran = humaneval("-n", "0", "--temperature", "0")
    assert ran.exit_code == 0, ran.err
    assert [line.split("  ")[0] for line in ran.out.splitlines()] == ["FIGURE", "pass@1, greedy"]


def test_arithmetic_tells_a_single_sample_the_majority_and_the_margin(arithmetic, cache):
    ran = arithmetic("--problems", "4", "-n", "3")
    assert ran.exit_code == 0, ran.err
    names = ["right, greedy", "right, one sample", "right, majority of 3", "margin over one sample"]
    assert [line.split("  ")[0] for line in ran.out.splitlines()[1:]] == names
    (file,) = (cache / "evals").iterdir()
    assert arithmetic("--problems", "5", "-n", "4", "--quiet").err == ""
    assert list((cache / "evals").iterdir()) == [file]  # more problems and samples go into the same file
    assert arithmetic("--problems", "1", "-n", "1", "--problem-seed", "1", "--quiet").exit_code == 0
    assert len(list((cache / "evals").iterdir())) == 2
    told = json.loads(arithmetic("--problems", "1", "-n", "1", "--problem-seed", "7", "--json").out)
    assert told["settings"]["problem_seed"] == 7
    assert "problems" not in told["settings"], "the word is for the problems themselves"


def test_the_best_answer_of_a_search_is_evaluated_beside_the_others(arithmetic, humaneval, tmp_path):
    ran = arithmetic("--problems", "3", "-n", "2", "--search", "beam:width=3")
    assert ran.exit_code == 0, ran.err
    names = [line.split("  ")[0] for line in ran.out.splitlines()[1:]]
    assert names[:3] == ["right, greedy", "right, beam:width=3", "right, one sample"]
    out = ("--out", str(tmp_path / "a.jsonl"))
    how = ("-n", "0", "--no-greedy", "--search", "stochastic-beam:k=1", "--json", *out)
    told = json.loads(humaneval(*how).out)
    assert [figure["name"] for figure in told["figures"]] == ["pass@1, stochastic-beam:k=1"]
    assert [len(problem["search"]) for problem in told["problems"]] == [1, 1, 1]
    assert told["settings"]["search"]["search"]["name"] == "stochastic-beam"
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()[1:]]
    assert [line["series"] for line in lines] == ["search"] * 3
    again = humaneval(*how)
    assert json.loads(again.out) == told
    assert "has 3 answers, not written again" in again.err
    ran = humaneval(*how[:3], "--search", "beam", *out)
    assert ran.exit_code == 2
    assert "has answers with search = stochastic-beam:k=1, and beam is asked for" in ran.err


def test_the_answer_of_a_search_is_what_the_search_says(arithmetic, model, tmp_path):
    from unspool import LLM, Beam, DecodingParams
    from unspool.evals.arithmetic import questions_of, stop_for
    from unspool.evals.word_problems import word_problems

    out = tmp_path / "a.jsonl"
    how = ("--problems", "2", "-n", "0", "--no-greedy", "--profile", "translate", "--concurrency", "3")
    assert arithmetic(*how, "--out", str(out)).exit_code == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    with LLM(model, threads=1) as llm:
        questions = questions_of(llm, word_problems(2, seed=0))
        params = DecodingParams(max_tokens=6, stop=stop_for(llm))
        beam = Beam(width=4, length_norm="gnmt", alpha=0.6)
        texts = {q.name: llm.generate(q.prompt_ids, params, search=beam).text for q in questions}
    assert {line["question"]: line["text"] for line in lines} == texts


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--search", "beam:n_best=2"], "--search beam:n_best=2 has 2 answers and the best one is evaluated"),
        (["--search", "constrained-beam"], "problems have none in common; give another search"),
        (["--search", "beam", "--top-k", "3"], "top_k=3 has no meaning in a beam search"),
        (["--search", "beam", "-n", "0", "--seed", "7"], "seed=7 has no meaning in a beam search"),
        (["--search", "beam", "--profile", "creative"], "top_p is of profile creative: take another"),
        (
            ["-n", "0", "--seed", "7"],
            "seed=7 is for samples or a search, and -n 0 leaves greedy answers alone",
        ),
        (["-n", "0", "--xtc-probability", "0.5", "--top-k", "3", "--min-p", "0.1"], "top_k=3 is for samples"),
        (["-n", "0", "--top-k", "3"], "top_k=3 is for samples or a search, and -n 0 leaves greedy"),
        (["-n", "0", "--temperature", "0.5"], "temperature=0.5 is for samples or a search"),
        (
            ["--profile", "factual"],
            "temperature is of profile factual: take another profile, raise temperature",
        ),
        (["-n", "0", "--no-greedy"], "leave nothing to do; give one of them, or a --search"),
        (["-n", "0", "--no-greedy", "--search", "sample"], "leave nothing to do"),
        (["--search", "bean"], "there is no search 'bean'"),
    ],
)
def test_a_search_that_cannot_be_evaluated_is_refused_before_a_model_is_loaded(unspool, options, says):
    for benchmark in ("arithmetic", "humaneval"):
        ran = unspool("eval", benchmark, "--model", "/nowhere/a.gguf", *options)
        assert (ran.exit_code, ran.out) == (2, "")
        assert says in ran.err


@pytest.mark.skipif(len(instruction_sets()) < 2, reason="the machine has one instruction set")
def test_a_seed_is_of_the_samples_beside_a_search_that_draws_nothing(arithmetic):
    how = ("--problems", "1", "--search", "beam", "--json")
    assert json.loads(arithmetic(*how, "-n", "1", "--seed", "7").out)["settings"]["sample"]["seed"] == 7
    ran = arithmetic(*how, "-n", "0")
    assert ran.exit_code == 0, ran.err


def test_sample_is_no_search_though_the_profile_is_meant_for_one(arithmetic):
    how = ("--problems", "1", "-n", "1", "--profile", "translate", "--json")
    assert "search" in json.loads(arithmetic(*how).out)["settings"]
    assert "search" not in json.loads(arithmetic(*how, "--search", "sample").out)["settings"]


def test_another_instruction_set_does_not_go_on_with_a_file(arithmetic, tmp_path, monkeypatch):
    how = ["--problems", "1", "-n", "0", "--quiet", "--out", str(tmp_path / "a.jsonl")]
    monkeypatch.setenv("UNSPOOL_ISA", instruction_sets()[0])
    assert arithmetic(*how).exit_code == 0
    assert arithmetic(*how, "--threads", "2", "--concurrency", "1").exit_code == 0
    monkeypatch.setenv("UNSPOOL_ISA", instruction_sets()[-1])
    ran = arithmetic(*how)
    assert (ran.exit_code, ran.out) == (2, "")
    assert "another instruction set or processor" in ran.err


def test_either_benchmark_takes_either_name_of_how_many_problems(humaneval, arithmetic):
    ran = humaneval("-n", "0", "--problems", "2", "--json", "--quiet")
    assert len(json.loads(ran.out)["problems"]) == 2
    ran = arithmetic("-n", "0", "--limit", "2", "--json", "--quiet")
    assert len(json.loads(ran.out)["problems"]) == 2


def empty(text):
    return Answer("t", "greedy", 0, text, "stop", 1, {})


def test_answers_that_are_mostly_empty_are_noted():
    note = empty_note({"greedy": {"a": [empty("```")], "b": [empty("\n")], "c": [empty("x")]}})
    assert note is not None
    assert note.startswith("2 of 3 answers are empty")
    assert empty_note({"greedy": {"a": [empty("")], "b": [empty("x")]}}) is None


def test_a_form_in_which_a_model_ends_at_once_is_noted_with_another(humaneval, monkeypatch):
    monkeypatch.setattr("unspool.cli.eval_table.empty_note", lambda answers: "all are empty")
    ran = humaneval("-n", "0", "--form", "fill")
    assert "note: all are empty; --form chat may suit it better" in ran.err
    assert "--form" not in humaneval("-n", "0", "--form", "chat").err


def test_one_token_is_one_token(capsys):
    with eval_progress(1, 0, quiet=False) as watch:
        watch([empty("x")])
    assert "1 of 1 answer, 1 token, " in capsys.readouterr().err


def test_weights_that_are_quantized_as_they_are_loaded_are_another_model(arithmetic, cache):
    how = ["--problems", "1", "-n", "0", "--quiet"]
    for weights in ([], ["--weights", "q8"]):
        ran = arithmetic(*how, *weights)
        assert ran.exit_code == 0, ran.err
    assert len(list((cache / "evals").iterdir())) == 2


def test_problems_without_number_are_refused(arithmetic):
    assert "--problems must be a whole number in [1, 1000000]" in arithmetic("--problems", "0").err


def test_a_terminal_sees_a_bar(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with eval_progress(4, 1, quiet=False) as watch:
        watch([Answer("t", "sample", 0, "", "stop", 5, {})])
    assert "2/4" in capsys.readouterr().err
