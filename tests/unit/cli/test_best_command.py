"""`unspool best`, with answers that no model wrote."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from answers import Told

from unspool.best import Judged, run_best
from unspool.cli import load
from unspool.cli.best import N_ANSWERS
from unspool.cli.best_table import _answer_dict, ranking_rows, report_dict, summary_line
from unspool.cli.best_verifier import VerifierOptions
from unspool.errors import BadRequest, TemplateError, VerifierError, named
from unspool.loading import USUAL_KV_TOKENS
from unspool.params import DecodingParams
from unspool.profiles.needs import VERIFIERS
from unspool.search.beam import Beam
from unspool.search.best_of import BestOf
from unspool.search.constrained_beam import ConstrainedBeam
from unspool.search.verifiers import python_tests  # noqa: F401 - it holds the sandbox that a test takes away
from unspool.search.verifiers.arithmetic import Arithmetic
from unspool.search.verifiers.base import Verdict
from unspool.search.verifiers.function import Function
from unspool.search.verifiers.majority import Majority
from unspool.search.verifiers.regex import Regex
from unspool.search.verifiers.registry import BUILT_IN


def test_the_usual_number_of_usual_answers_fits_into_the_usual_cache():
    n_prompt = 256
    assert N_ANSWERS * (DecodingParams().max_tokens + n_prompt) <= USUAL_KV_TOKENS


class FakeLLM:
    """Has its answers ready, a word a token."""

    def __init__(self, *answers):
        self.answers, self.has_template, self.is_closed = answers, True, False
        self.heard = None

    @property
    def has_chat_template(self):
        return self.has_template

    @property
    def chat_template(self):
        if not self.has_template:
            raise TemplateError("none", code="no_chat_template")
        return object()

    def best(self, prompt, spec, params, *, watch=None):
        self.heard = (prompt, spec, params)
        told = Told(*[answer.split(" ") for answer in self.answers[: spec.n]])
        return run_best(told, str(prompt), spec, spec.params(params), watch)

    def best_chat(self, messages, spec, params, *, watch=None):
        report = self.best(messages[-1]["content"], spec, params, watch=watch)
        self.heard = (messages, spec, params)
        return report

    def close(self):
        self.is_closed = True


@pytest.fixture
def llm(monkeypatch):
    fake = FakeLLM("It is 4", "5", "So: 4", "It must be 4", "9 9 9 9 9 9 9")
    monkeypatch.setattr(load, "load_llm", lambda model, **options: fake)
    return fake


def test_the_best_answer_is_printed_and_the_ranking_beside_it(unspool, llm):
    ran = unspool("best", "2+2?", "-n", "5", "--verifier", "majority", "--answer-regex", r"\d", "--seed", "7")
    assert ran.exit_code == 0, ran.err
    assert ran.out == "So:4\n"  # the first to end of those that say 4
    lines = [line.split() for line in ran.err.splitlines() if line]
    assert lines[0] == ["RANK", "ANSWER", "SCORE", "TOKENS", "RESULT", "DETAIL"]
    assert lines[1][:5] == ["1", "3", "1", "2", "4"]
    assert lines[4][:5] == ["4", "2", "1", "1", "5"]
    assert lines[5][:2] == ["-", "5"]
    assert ["RESULT", "VOTES", "WEIGHT"] in lines
    assert ["4", "3", "3"] in lines
    assert (
        "judged: 4 of 5 answers | 13 tokens | end: stopped early: the verifier had enough | seed: 7"
        in ran.err
    )
    assert llm.heard[0] == [{"role": "user", "content": "2+2?"}]
    assert llm.is_closed


def test_a_profile_says_how_many_answers_and_who_judges(unspool, llm):
    llm.answers *= 2
    ran = unspool("best", "2+2?", "--profile", "reason")
    assert ran.exit_code == 0, ran.err
    assert (llm.heard[1].n, llm.heard[1].verifier) == (8, Majority(Arithmetic()))
    assert llm.heard[2].temperature == 0.7
    unspool("best", "2+2?", "--profile", "reason", "-n", "3", "--verifier", "regex", "--answer-regex", "4")
    assert (llm.heard[1].n, llm.heard[1].verifier) == (3, Regex("4"))
    assert "`unspool best` does" in unspool("run", "2+2?", "--profile", "reason").err


def test_a_profile_that_is_meant_for_a_beam_has_its_answers_judged(unspool, llm):
    how = ("best", "2+2?", "--verifier", "regex", "--answer-regex", "4")
    for profile in ("translate", "summarise"):
        ran = unspool(*how, "--profile", profile)
        assert ran.exit_code == 0, ran.err
        _, spec, params = llm.heard
        assert spec.searched == Beam(width=4, n_best=4, length_norm="gnmt", alpha=0.6)
        assert (params.temperature, params.top_p) == (1.0, 1.0)
        assert "note:" not in ran.err
    unspool(*how, "--profile", "translate", "-n", "2")
    assert llm.heard[1].searched == Beam(width=4, n_best=2, length_norm="gnmt", alpha=0.6)
    unspool(*how, "--profile", "translate", "--search", "sample")
    assert llm.heard[1].searched is None
    assert llm.heard[1].n == 16


BOTH = """
[needs.best_of]
reason = "r"
[needs.best_of.n]
value = 8
reason = "r"
[needs.best_of.verifier]
value = "majority"
reason = "r"
[needs.beam]
reason = "r"
[needs.beam.width]
value = 4
reason = "r"
"""


def test_a_profile_with_more_answers_than_its_beam_has_is_refused_by_its_name(unspool, llm, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text(BOTH)
    how = ("best", "2+2?", "--profile", str(mine))
    ran = unspool(*how)
    assert (ran.exit_code, llm.heard) == (2, None)
    assert "has 8 answers judged, and its beam has 4 at most; give -n up to 4, or a --search" in ran.err
    assert "mine" in ran.err
    assert "-n 8" not in ran.err
    assert unspool(*how, "-n", "4").exit_code == 0
    assert llm.heard[1].searched == Beam(width=4, n_best=4)
    assert unspool(*how, "--search", "sample").exit_code == 0
    assert llm.heard[1].n == 8


def test_a_tie_of_votes_says_which_results_and_why_one_was_chosen(unspool, llm):
    llm.answers = ("It is 4", "5", "So: 4", "It must be 5", "6")
    how = ("best", "2+2?", "-n", "5", "--verifier", "majority")
    ran = unspool(*how)
    assert ran.out == "5\n"
    assert "\ntie: 5 and 4 have 2 votes each; 5 was chosen, which came first\n" in ran.err
    told = json.loads(unspool(*how, "--json").out)
    assert (told["tied_votes"], told["tied"]) == (["5", "4"], [])
    llm.answers = ("It is 4", "4", "So: 4", "It must be 5", "6")
    assert "tie:" not in unspool(*how).err
    assert json.loads(unspool(*how, "--json").out)["tied_votes"] == []


def test_answers_that_are_judged_alike_are_told(unspool, llm):
    how = ("best", "2+2?", "-n", "4", "--verifier", "regex", "--answer-regex", "4", "--all")
    ran = unspool(*how)
    assert "\ntie: answers 3, 1 and 4 were judged alike; 3 was chosen, which came first\n" in ran.err
    assert json.loads(unspool(*how, "--json").out)["tied"] == [2, 0, 3]
    llm.answers = ("4", "5")
    assert "tie:" not in unspool("best", "x", "-n", "2", *how[4:]).err


def test_breaking_off_tells_the_seed(unspool, llm, monkeypatch):
    def interrupted(messages, spec, params, *, watch):
        llm.heard = params.seed
        raise KeyboardInterrupt

    monkeypatch.setattr(llm, "best_chat", interrupted)
    how = ("best", "2+2?", "-n", "4", "--verifier", "majority")
    ran = unspool(*how)
    assert (ran.exit_code, ran.out) == (130, "")
    assert ran.err == f"judged: 0 of 4 answers | end: interrupted | seed: {llm.heard}\n"
    assert llm.heard is not None
    assert unspool(*how, "--quiet").err == ""
    assert unspool(*how, "--search", "beam").err == "judged: 0 of 4 answers | end: interrupted\n"
    assert llm.heard is None, "nothing is drawn"
    told = json.loads(unspool(*how, "--json").out)
    assert (told["text"], told["ended"], told["seed"]) == ("", "cancelled", llm.heard)
    assert [each["problem"] for each in told["answers"]] == ["broken off"] * 4


def test_breaking_off_leaves_json_the_answers_that_were_judged(unspool, llm, monkeypatch):
    judged = Majority.__call__

    def interrupted(verifier, prompt, completion):
        if completion.branch == 3:
            raise KeyboardInterrupt
        return judged(verifier, prompt, completion)

    monkeypatch.setattr(Majority, "__call__", interrupted)
    ran = unspool("best", "2+2?", "-n", "5", "--verifier", "majority", "--seed", "7", "--json")
    assert ran.exit_code == 130
    assert ran.err.endswith(" of 5 answers | end: interrupted | seed: 7\n")
    told = json.loads(ran.out)
    assert (told["ended"], told["seed"]) == ("cancelled", 7)
    assert {each["branch"] for each in told["answers"]} == set(range(5))
    n_judged = sum(each["verdict"] is not None for each in told["answers"])
    assert 0 < n_judged == int(ran.err.split()[1])


def test_nobody_to_ask_and_no_sandbox_are_found_before_a_model_is_loaded(unspool, llm, tmp_path, monkeypatch):
    ran = unspool("best", "--verifier", "person", stdin=b"2+2?")
    assert (ran.exit_code, llm.heard) == (2, None)
    assert "where the prompt came from; give the prompt as an argument" in ran.err
    tests = tmp_path / "tests.py"
    tests.write_text("assert f(1) == 2\n")

    def no_sandbox(*_, **how):
        if not how["allow_weak"]:
            raise VerifierError("this system gives the sandbox no hold", code="no_sandbox")

    monkeypatch.setattr("unspool.search.verifiers.sandbox.run.run", no_sandbox)
    how = ("best", "x", "--verifier", "python-tests", "--tests", str(tests))
    ran = unspool(*how)
    assert (ran.exit_code, llm.heard) == (1, None)
    assert ran.err == "error: this system gives the sandbox no hold\n"


def test_every_verifier_that_a_profile_may_name_is_one():
    assert set(VERIFIERS) <= set(BUILT_IN)


def test_json_has_everything(unspool, llm):
    ran = unspool("best", "2+2?", "-n", "2", "--verifier", "regex", "--answer-regex", "5", "--all", "--json")
    told = json.loads(ran.out)
    assert (told["text"], told["prompt"], told["verifier"]) == ("5", "2+2?", "regex")
    assert [(a["rank"], a["branch"], a["verdict"]["accepted"]) for a in told["answers"]] == [
        (1, 1, True),
        (2, 0, False),
    ]
    assert (told["ended"], told["n_tokens"], told["n_accepted"]) == ("complete", 4, 1)
    assert told["params"]["temperature"] == 0.8
    assert ran.err == ""


def test_quiet_prints_the_answer_alone(unspool, llm):
    ran = unspool("best", "2+2?", "-n", "2", "--verifier", "regex", "--answer-regex", "5", "-q")
    assert (ran.out, ran.err) == ("5\n", "")


def test_a_budget_in_which_nothing_ends_prints_no_answer(unspool, llm):
    llm.answers = ("a b c", "d e f")
    ran = unspool("best", "x", "-n", "2", "--verifier", "regex", "--answer-regex", "5", "--budget", "2")
    assert (ran.exit_code, ran.out) == (0, "")
    assert "the budget was spent" in ran.err
    how = ("--verifier", "regex", "--answer-regex", "5", "--budget", "2", "--json")
    told = json.loads(unspool("best", "x", "-n", "2", *how).out)
    assert [(answer["rank"], answer["verdict"]) for answer in told["answers"]] == [(None, None)] * 2


def test_tests_come_from_a_file_and_the_prompt_begins_the_program_where_it_is_continued(
    unspool, llm, tmp_path
):
    tests = tmp_path / "tests.py"
    tests.write_text("assert f(1) == 2\n")
    arguments = ("best", "def f(x):", "-n", "1", "--verifier", "python-tests", "--tests", str(tests))
    allow = ("--with", "allow_weak=true")
    llm.answers = ("return x",)
    assert unspool(*arguments, *allow).exit_code == 0
    assert llm.heard[1].verifier.continues_prompt is False
    assert "0 of 1 tests" in unspool(*arguments, *allow, "--raw").err
    assert llm.heard[1].verifier.continues_prompt is True
    llm.has_template = False
    assert "no chat template" in unspool(*arguments, *allow).err
    assert llm.heard[1].verifier.continues_prompt is True
    unspool(*arguments, "--with", "continues_prompt=false")
    assert llm.heard[1].verifier.continues_prompt is False


JUDGE = ("--verifier", "llm-judge", "--url", "http://localhost/v1", "--with", "model=m")
REWARD = ("--verifier", "http-reward", "--url", "http://localhost/")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--verifier is missing"),
        (("--verifier", "python-examples"), "put some in, or give --verifier python-tests with --tests"),
        (("--verifier", "regexp"), "did you mean 'regex'"),
        (("--verifier", "regex"), "--verifier regex needs --answer-regex"),
        (("--verifier", "regex", "--answer-regex", "x", "-n", "0"), "-n must be"),
        (("--verifier", "regex", "--answer-regex", "x", "--budget", "no"), "--budget must be"),
        (("--verifier", "regex", "--answer-regex", "x", "--temperature", "0"), "equal answers"),
        (("--verifier", "regex", "--answer-regex", "x", "--tests", __file__), "--tests is for python-tests"),
        (
            ("--verifier", "regex", "--with", "x"),
            "--with takes NAME=VALUE, got 'x'; `unspool best --verifier list`",
        ),
        (
            ("--verifier", "regex", "--with", "pattern=x", "--with", "pattern=y"),
            "--with gives pattern twice; keep",
        ),
        (
            ("--verifier", "regex", "--answer-regex", "("),
            "--answer-regex must be a regular expression, got '(': missing ), unterminated subpattern at "
            "position 0; a backslash before a sign makes it text",
        ),
        (
            ("--verifier", "majority", "--answer-regex", "("),
            "--answer-regex must be a regular expression, got '('",
        ),
        (
            ("--verifier", "majority", "--with", "answers=("),
            "--with answers must be a regular expression, got '('",
        ),
        (
            ("--verifier", "llm-judge", "--with", "base_url=x", "--with", "model=m"),
            "--with base_url must be an http or https address, got 'x'; for example",
        ),
        (("--verifier", "llm-judge", "--url", "x", "--with", "model=m"), "--url must be an http or https"),
        (
            ("--verifier", "regex", "--with", "pattern=("),
            "--with pattern must be a regular expression, got '('",
        ),
        (
            ("--verifier", "regex", "--answer-regex", "x", "--with", "whole=5"),
            "whole of verifier regex must be true or false, got 5",
        ),
        (
            ("--verifier", "regex", "--answer-regex", "x", "--with", "hole=true"),
            "verifier regex has no setting 'hole'; it takes: pattern, whole, ignore_case",
        ),
        (
            ("--verifier", "regex", "--answer-regex", "x", "--with", "pattern=y"),
            "--answer-regex and --with pattern='y' were both given",
        ),
        (("--verifier", "python-tests", "--tests", "/no/such"), "/no/such"),
        (("--verifier", "json-schema", "--schema", __file__), "no JSON"),
        (
            ("--verifier", "no_module:f"),
            "--verifier no_module:f: ModuleNotFoundError: \"No module named 'no_module'\"; MODULE:FUNCTION "
            "is looked for in the current folder and among what is installed",
        ),
        (
            ("--verifier", "majority:fold_case=true"),
            "among what is installed; settings of the verifier majority are given with --with",
        ),
        (
            ("--verifier", "json:no"),
            "--verifier json:no: AttributeError: \"module 'json' has no attribute 'no'\"; MOD",
        ),
        (
            ("--verifier", "string:digits"),
            "must be a function of the prompt and the answer's text, got '0123456789'",
        ),
        (
            ("--verifier", "sum-logprob", "--profile", "factual"),
            "temperature 0 makes 16 equal answers; temperature is of profile factual: take another",
        ),
        (
            ("--verifier", "sum-logprob", "--search", "beam", "--profile", "creative"),
            "is of profile creative",
        ),
        (("--verifier", "sum-logprob", "--search", "beam", "--seed", "7"), "seed=7 has no meaning in a beam"),
        (("--verifier", "regex", "--answer-regex", "x", "--raw", "--system", "s"), "--system"),
        (("--verifier", "regex", "--answer-regex", "x", "--set", "logprobs=1"), "set by this command"),
        (("--verifier", "person", "--with", "reads=zz"), "reads must be a file to read from, which only a"),
        (("--verifier", "person", "--with", "shows=1"), "shows must be a file to write to"),
        (
            (*JUDGE, "--with", "n_retries=-1"),
            "--with n_retries must be a whole number in [0, 100], got -1; leave",
        ),
        ((*JUDGE, "--with", "max_tokens=0"), "max_tokens must be a whole number in [1, 1048576], got 0"),
        ((*JUDGE, "--with", "accept_at=NaN"), "accept_at must be a number, or none"),
        ((*JUDGE, "--with", "prompt=5"), "must be an object with settings of its own, got 5"),
        ((*JUDGE, "--with", 'prompt={"system": 1}'), "prompt of verifier llm-judge:"),
        ((*REWARD, "--with", "headers=zz"), "headers must be names with texts"),
        ((*REWARD, "--with", 'headers={"a": 1}'), "headers must be names with texts"),
        (
            (*REWARD, "--with", "timeout_s=0"),
            "--with timeout_s must be a number above 0, got 0; it is in seconds",
        ),
        ((*REWARD, "--with", "score_field="), "score_field must be a text that is not empty"),
        ((*REWARD, "--with", "n_retries=101"), "n_retries must be a whole number in [0, 100], got 101"),
        (("--verifier", "citations", "--source", __file__, "--with", "min_words=-1"), "min_words must be"),
        (
            ("--verifier", "python-tests", "--with", "tests=assert 1", "--with", "limits=5"),
            "limits of verifier",
        ),
        (
            ("--verifier", "python-examples", "--with", 'limits={"n_threads": 1e30}'),
            "n_threads of the sandbox must be a whole number in [1, 1125899906842624], got 1e+30",
        ),
        (("--verifier", "sum-logprob", "--with", "accept_at=NaN"), "accept_at must be a number"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_line(unspool, llm, arguments, said):
    ran = unspool("best", "Hi", *arguments)
    assert ran.exit_code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert llm.heard is None


def test_the_verifiers_are_listed(unspool):
    ran = unspool("best", "--verifier", "list")
    assert ran.exit_code == 0
    assert "majority" in ran.out
    assert "pattern, whole, ignore_case" in ran.out


def make(name, **options):
    return VerifierOptions(name, **options).make(continues_prompt=False)


def test_majority_takes_the_last_number_or_what_a_pattern_finds():
    assert make("majority").answers == Arithmetic()
    assert make("majority", answer_regex="x", weighted=True).answers == Regex("x")
    assert make("majority", weighted=True).weighted is True


def test_sources_have_labels_or_numbers(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"text {name}")
    citations = make("citations", source=[str(tmp_path / "a"), f"second={tmp_path / 'b'}"])
    assert citations.sources == {"1": "text a", "second": "text b"}
    with pytest.raises(BadRequest, match="twice"):
        make("citations", source=[f"x={tmp_path / 'a'}", f"x={tmp_path / 'b'}"])


def test_settings_are_json_or_text():
    reward = make("http-reward", url="http://localhost/", assignments=["accept-at=0.5", "score_field=a.b"])
    assert (reward.url, reward.accept_at, reward.score_field) == ("http://localhost/", 0.5, "a.b")
    assert make("arithmetic", expect="5 km").expected == "5 km"


def test_a_function_of_the_current_folder_judges(tmp_path, monkeypatch):
    (tmp_path / "my_checks_of_best.py").write_text("def long(prompt, text):\n    return len(text)\n")
    monkeypatch.chdir(tmp_path)
    assert make("my_checks_of_best:long").function("", "abc") == 3
    with pytest.raises(BadRequest, match="short"):
        make("my_checks_of_best:short")


def test_scores_that_are_not_finite_are_null_and_text_is_one_line():
    spec = BestOf(n=1, verifier=Function(lambda p, t: Verdict(float("-inf"), detail="a\n\x1b[2J" + "x" * 99)))
    report = run_best(Told(["a"]), "p", spec, DecodingParams())
    assert report_dict(report)["answers"][0]["verdict"]["score"] is None
    assert json.dumps(report_dict(report))
    (_, line) = ranking_rows(report)
    assert len(line[-1]) == 60
    assert line[-1].startswith("a \\x1b[2Jxxx")
    assert summary_line(report).startswith("judged: 1 of 1 answer | 1 token | ")
    ended = replace(report, n_tokens=2)
    assert "| 1 token, 2 with those that end answers |" in summary_line(ended)


def test_the_answers_may_have_to_contain_a_phrase(unspool, llm):
    ran = unspool("best", "x", "--must-contain", "sea", "-n", "3", "--verifier", "mean-logprob")
    assert ran.exit_code == 0, ran.err
    assert llm.heard[1].searched == ConstrainedBeam(phrases=["sea"], n_best=3)


def test_the_answers_of_a_search_are_judged(unspool, llm):
    ran = unspool(
        "best", "x", "--search", "beam:width=6", "-n", "3", "--verifier", "regex", "--with", "pattern=4.?"
    )
    assert ran.exit_code == 0, ran.err
    _, spec, params = llm.heard
    assert spec.searched == Beam(width=6, n_best=3)
    assert params.temperature == 1.0, "nothing is drawn, so the default profile's temperature is silent"
    refused = unspool(
        *("best", "x", "--search", "beam", "-n", "3", "--verifier", "regex", "--with", "pattern=4.?"),
        *("--budget", "9"),
    )
    assert refused.exit_code == 2
    assert "--budget 9 has no meaning with beam" in refused.err


def test_a_module_that_fails_as_it_is_imported_is_one_line(unspool, llm, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("def judge(:\n")
    monkeypatch.chdir(tmp_path)
    ran = unspool("best", "Hi", "--verifier", "broken:judge")
    assert (ran.exit_code, llm.heard) == (2, None)
    assert ran.err.startswith("error: --verifier broken:judge: SyntaxError: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import sys\nsys.exit('no')\n", "SystemExit: 'no'"),
        ("import os\nos.chdir('/')\n1 / 0\n", "ZeroDivisionError"),
        ("import sys\ndel sys.path[0]\n1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_whatever_a_module_does_as_it_is_imported_is_one_line_and_leaves_the_path(
    unspool, llm, tmp_path, monkeypatch, body, said
):
    (tmp_path / "does_much.py").write_text(body)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    ran = unspool("best", "Hi", "--verifier", "does_much:judge")
    assert (ran.exit_code, ran.err.count("\n"), sys.path) == (2, 1, before)
    assert ran.err.startswith(f"error: --verifier does_much:judge: {said}")


def test_why_nobody_judged_an_answer_is_told_as_it_is_typed():
    error = VerifierError(f"raise {named('timeout_s')}, or give {named('allow_weak', True)}")
    judged = Judged(0, "a", (1,), None, None, str(error), error)
    assert _answer_dict(1, judged)["problem"] == "raise --with timeout_s=..., or give --with allow_weak=true"
