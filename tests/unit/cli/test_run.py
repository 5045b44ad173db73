from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tiny_llm import write_tiny_llm

from unspool import Beam
from unspool.cli import answer, main
from unspool.cli.decoding import DEFAULT_PROFILE, Decoding
from unspool.cli.interrupts import Interrupts, all_of
from unspool.cli.text import checked
from unspool.engine.stream import EventStream
from unspool.errors import BadRequest, ContextOverflow, ModelFileError, TemplateError
from unspool.search.named import search_of
from unspool.types import Event, Usage


def test_text_goes_to_standard_output_and_figures_to_standard_error(unspool, fake_llm) -> None:
    ran = unspool("run", "Tell me.")
    assert ran.exit_code == 0
    assert ran.out == "Once upon a time.\n"
    assert "prompt: 7 tokens (350.0/s)" in ran.err
    assert "answer: 3 tokens (20.0/s)" in ran.err
    assert "first token: 20 ms" in ran.err
    assert "end: end of text" in ran.err
    assert "seed: 41" in ran.err
    assert fake_llm.is_closed


def test_several_answers_come_one_after_the_other_with_a_line_between(unspool, fake_llm) -> None:
    ran = unspool("run", "Tell me.", "-n", "3")
    assert ran.out == "Once upon a time.\n---\nONCE UPON A TIME.\n---\nONCE UPON A TIME.\n"
    assert [line.rpartition(" | ")[2] for line in ran.err.splitlines()] == [f"branch: {i}" for i in range(3)]
    (one,) = unspool("run", "Tell me.", "-n", "1").err.splitlines()
    assert "branch" not in one


def test_answers_of_a_search_come_with_their_scores(unspool, fake_llm) -> None:
    fake_llm.scores = (-0.892, -1.5)
    first, second = unspool("run", "Tell me.", "--search", "beam", "-n", "2").err.splitlines()
    assert first.endswith("branch: 0 | score: -0.892")
    assert second.endswith("branch: 1 | score: -1.500")
    fake_llm.scores = ()
    assert "score" not in unspool("run", "Tell me.", "-n", "2").err


def test_several_answers_are_a_list_in_json(unspool, fake_llm) -> None:
    for n in (1, 2):
        answers = json.loads(unspool("run", "Tell me.", "-n", str(n), "--json").out)
        assert [answer["branch"] for answer in answers] == list(range(n))
        assert [answer["text"].lower() for answer in answers] == ["once upon a time."] * n
        assert [answer["token_ids"] for answer in answers] == [[0, 1, 2]] * n


def test_a_search_is_named_with_its_settings_and_leaves_the_default_profile_alone(unspool, fake_llm) -> None:
    unspool("run", "Tell me.", "--search", "beam:width=5,alpha=0.6", "--repetition-penalty", "1.2")
    assert fake_llm.searches == [Beam(width=5, alpha=0.6)]
    ((_, params),) = fake_llm.chats
    assert (params.temperature, params.top_p, params.repetition_penalty) == (1, 1, 1.2)


@pytest.mark.parametrize("profile", ["translate", "summarise"])
def test_a_profile_that_needs_a_beam_gets_it_and_leaves_draws_alone(unspool, fake_llm, profile) -> None:
    ran = unspool("run", "Tell me.", "--profile", profile)
    assert fake_llm.searches == [Beam(width=4, length_norm="gnmt", alpha=0.6)]
    ((_, params),) = fake_llm.chats
    assert (params.temperature, params.top_p) == (1, 1)
    assert "note:" not in ran.err


def test_a_search_that_is_typed_wins_over_the_profile(unspool, fake_llm) -> None:
    unspool("run", "Tell me.", "--profile", "summarise", "--search", "sample")
    assert fake_llm.searches == [None]
    assert fake_llm.chats[0][1].temperature == 0.4


def test_several_answers_of_a_search_are_its_best(unspool, fake_llm) -> None:
    ran = unspool("run", "Tell me.", "--search", "beam", "-n", "2")
    assert fake_llm.searches == [Beam(width=4, n_best=2)]
    assert ran.out.count("---") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--search", "beem"), "there is no search 'beem'; did you mean 'beam'?"),
        (("--search", "beam", "--temperature", "0.7"), "temperature=0.7 has no meaning in a beam search"),
        (
            ("--search", "beam", "--profile", "creative"),
            "top_p=0.95 has no meaning in a beam search, which draws nothing; top_p is of profile creative: "
            "take another profile, or a search that draws, as sample and beam-sample do",
        ),
        (
            ("--search", "beam", "--seed", "7"),
            "seed=7 has no meaning in a beam search, which draws nothing; leave it out, or take",
        ),
        (("--must-contain", "sea", "--seed", "7"), "seed=7 has no meaning in a constrained beam search"),
        (("--search", "diverse-beam", "--seed", "0"), "seed=0 has no meaning in a diverse beam search"),
        (("--profile", "translate", "--seed", "7"), "seed=7 has no meaning in a beam search"),
    ],
)
def test_what_a_search_cannot_mean_is_refused(unspool, fake_llm, options, message) -> None:
    ran = unspool("run", "Hi", *options)
    assert (ran.exit_code, fake_llm.asked) == (2, {})
    assert message in ran.err


def test_a_seed_is_for_a_search_that_draws(unspool, fake_llm, tmp_path) -> None:
    for search in ("sample", "beam-sample", "stochastic-beam"):
        assert unspool("run", "Hi", "--search", search, "--seed", "7").exit_code == 0
        assert fake_llm.chats[-1][1].seed == 7
    assert unspool("run", "Hi", "--search", "beam", "--seed", "none").exit_code == 0
    mine = tmp_path / "mine.toml"
    mine.write_text('description = "x"\nseed = 5\n')
    ran = unspool("run", "Hi", "--search", "beam", "--profile", str(mine))
    assert f"seed is of profile {mine}: take another profile" in ran.err


@pytest.mark.parametrize("n", ["0", "-1", "1.5", "many"])
def test_a_number_of_answers_without_a_meaning_is_refused(unspool, fake_llm, n) -> None:
    ran = unspool("run", "Hi", "-n", n)
    assert (ran.exit_code, fake_llm.asked) == (2, {})
    assert ran.err.startswith("error: -n must be a whole number, at least 1")


def test_figures_tell_what_was_in_the_cache(unspool, fake_llm) -> None:
    fake_llm.n_cached = 5
    assert "prompt: 7 tokens, 5 cached (100.0/s) | " in unspool("run", "Tell me.").err
    assert json.loads(unspool("run", "Tell me.", "--json").out)["usage"]["cached_tokens"] == 5


def test_quiet_says_nothing_on_standard_error(unspool, fake_llm) -> None:
    ran = unspool("run", "Tell me.", "--quiet")
    assert (ran.out, ran.err) == ("Once upon a time.\n", "")


def test_a_prompt_goes_through_the_chat_template(unspool, fake_llm) -> None:
    unspool("run", "Hi", "--system", "Be brief.")
    [(messages, params)] = fake_llm.chats
    assert messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert (params.temperature, params.top_p, params.max_tokens) == (0.8, 0.9, 512)


def test_raw_continues_the_prompt_as_it_stands(unspool, fake_llm) -> None:
    ran = unspool("run", "--raw", "def f():")
    assert ran.exit_code == 0
    assert fake_llm.prompts[0][0] == "def f():"
    assert fake_llm.chats == []


def test_a_model_without_a_template_continues_the_prompt_and_says_so(unspool, fake_llm) -> None:
    fake_llm.lose_template()
    ran = unspool("run", "Once")
    assert fake_llm.prompts[0][0] == "Once"
    assert "no chat template" in ran.err
    assert ran.out == "Once upon a time.\n"


@pytest.mark.parametrize(
    ("size", "settings"),
    [("2GiB", {"kv_memory": "2GiB"}), ("50%", {"kv_memory": "50%"}), ("0.25", {"kv_memory": 0.25})],
)
def test_the_cache_may_be_sized_in_memory(unspool, fake_llm, size, settings) -> None:
    assert unspool("run", "Hi", "--kv", size).exit_code == 0
    assert fake_llm.asked["kv"] == settings


@pytest.mark.parametrize("size", ["0", "-5", "big", "1.5", "2G", "150%"])
def test_a_cache_of_no_size_is_refused_before_a_model_is_looked_for(unspool, fake_llm, size) -> None:
    ran = unspool("run", "Hi", "--kv", size)
    assert ran.exit_code == 2
    assert ran.err.startswith("error: --kv must be tokens (16384), bytes with a unit (2GiB, ")
    assert fake_llm.asked == {}


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_a_piped_prompt_loses_one_newline_at_its_end(unspool, fake_llm, arguments) -> None:
    unspool("run", "--raw", *arguments, stdin="naïve:\n\n".encode())
    assert fake_llm.prompts[0][0] == "naïve:\n"


def test_every_option_reaches_the_parameters(unspool, fake_llm) -> None:
    ran = unspool(
        *("run", "Hi", "--max-tokens", "9", "--temperature", "0.5", "--top-k", "40", "--top-p", "0.8"),
        *("--min-p", "0.05", "--seed", "3", "--stop", "a", "--stop", "b", "--ignore-eos"),
        *("--threads", "2", "--context", "512", "--runner", "reference", "-m", "other", "--kv", "4096"),
    )
    assert ran.exit_code == 0, ran.err
    params = fake_llm.chats[0][1]
    assert params.to_dict() | {"include_stop": False} == params.to_dict()
    assert (params.max_tokens, params.temperature, params.top_k, params.top_p) == (9, 0.5, 40, 0.8)
    assert (params.min_p, params.seed, tuple(params.stop), params.ignore_eos) == (0.05, 3, ("a", "b"), True)
    assert fake_llm.asked == {
        "model": "other",
        "threads": 2,
        "context": 512,
        "kv": {"kv_tokens": 4096},
        "runner": "reference",
        "quiet": False,
        "amateur": None,
        "weights": None,
        "limits": None,
        "check": None,
    }


def test_max_tokens_none_writes_to_the_end_of_the_context(unspool, fake_llm) -> None:
    unspool("run", "Hi", "--max-tokens", "none")
    assert fake_llm.chats[0][1].max_tokens is None


def test_a_seed_of_none_draws_a_fresh_one(unspool, fake_llm) -> None:
    assert unspool("run", "Hi", "--seed", "None").exit_code == 0
    assert fake_llm.chats[0][1].seed is None


def test_what_cannot_matter_at_temperature_0_is_pointed_out_if_it_was_typed(unspool, fake_llm) -> None:
    assert "note" not in unspool("run", "Hi", "--temperature", "0").err
    ran = unspool("run", "Hi", "--temperature", "0", "--top-p", "0.5", "--seed", "1")
    assert "at temperature 0 these change nothing: top_p, seed" in ran.err
    assert "seed:" not in ran.err.splitlines()[-1]


def test_json_is_one_object_with_text_ids_usage_and_parameters(unspool, fake_llm) -> None:
    ran = unspool("run", "Hi", "--json", "--seed", "5")
    answer = json.loads(ran.out)
    assert ran.err == ""
    assert answer["text"] == "Once upon a time."
    assert answer["token_ids"] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["usage"]["decode_tokens_per_s"] == 20.0
    assert answer["params"]["temperature"] == 0.8
    assert (answer["seed"], answer["finish_reason"], answer["chat_template"]) == (5, "stop", True)


@pytest.mark.parametrize(
    ("stop", "reason", "said"),
    [
        ("END", "stop", "stopped at 'END'"),
        (None, "stop", "end of text"),
        (None, "length", "end: token limit"),
        (None, "loop", "end: the text went round in circles"),
        (None, "deadline", "end: deadline"),
    ],
)
def test_the_figures_say_why_the_text_ended(unspool, fake_llm, stop, reason, said) -> None:
    fake_llm.stop, fake_llm.finish_reason = stop, reason
    assert said in unspool("run", "Hi").err


def test_an_answer_without_a_token_has_no_time_to_its_first(unspool, fake_llm) -> None:
    assert "first token: 20 ms" in unspool("run", "Hi").err
    fake_llm.pieces, fake_llm.finish_reason = (), "deadline"
    assert "first token" not in unspool("run", "Hi").err


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("run", ""), None, "the prompt is empty"),
        (("run", "--raw"), b"\n", "the prompt is empty"),
        (("run",), b"\xff\xfe", "not UTF-8"),
        (("run", "\udcff"), None, "not valid UTF-8"),
        (
            ("run", "Hi", "--max-tokens", "-5"),
            None,
            "max_tokens must be a whole number at least 1 or none, got -5; none writes",
        ),
        (("run", "Hi", "--max-tokens", "0"), None, "max_tokens must be"),
        (("run", "Hi", "--max-tokens", "many"), None, "got 'many'"),
        (("run", "Hi", "--top-p", "1.4"), None, "top_p must be a number in (0, 1], got 1.4"),
        (("run", "Hi", "--temperature", "nan"), None, "temperature must be"),
        (
            ("run", "Hi", "--temperature", "hot"),
            None,
            "temperature must be a number in [0, 100], got 'hot'; 0 is",
        ),
        (("run", "Hi", "--top-k", "1.5"), None, "top_k must be a whole number at least 0, got 1.5"),
        (("run", "Hi", "--seed", "x"), None, "or none, got 'x'; none draws a fresh seed"),
        (("run", "Hi", "--min-p", "none"), None, "min_p must be a number in [0, 1], got None"),
        (("run", "Hi", "--threads", "two"), None, "--threads must be a whole number in [1, 256], got 'two'"),
        (("run", "Hi", "--threads", "0"), None, "--threads must be a whole number in [1, 256], got 0"),
        (("chat", "--context", "1.5"), None, "--context must be a whole number, at least 1, got 1.5"),
        (("run", "Hi", "--system", "\udcff"), None, "--system is not valid UTF-8"),
        (("run", "Hi", "--raw", "--system", "x"), None, "--system needs the chat template"),
        (("run", "Hi", "--stop", ""), None, "each stop must be a non-empty string"),
        (("run", "Hi", "there"), None, "put a prompt of several words in quotes; see `unspool run --help`"),
        (("run", "Hi", "--nonsense"), None, "--nonsense"),
        (("run", "Hi", "--seed"), None, "requires an argument; see `unspool run --help`"),
        (("models", "show"), None, "see `unspool models show --help`"),
        (("models", "lost"), None, "Did you mean 'list'?; see `unspool models --help`"),
        (("walk",), None, "see `unspool --help`"),
    ],
)
def test_a_bad_request_is_one_line_with_exit_code_2(unspool, fake_llm, arguments, stdin, said) -> None:
    ran = unspool(*arguments, stdin=stdin)
    assert ran.exit_code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_system_for_a_model_without_a_template_is_refused(unspool, fake_llm) -> None:
    fake_llm.lose_template()
    ran = unspool("run", "Hi", "--system", "x")
    assert ran.exit_code == 2
    assert "this model has none" in ran.err


@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_template_that_does_not_work_is_never_passed_over(unspool, fake_llm, command: str) -> None:
    fake_llm.template_problem = TemplateError("m: chat template does not parse: line 3")
    ran = unspool(command, *(["Hi"] if command == "run" else []))
    assert (ran.exit_code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1] == "error: m: chat template does not parse: line 3"
    assert fake_llm.prompts == []


def test_a_prompt_that_is_too_long_is_one_line(unspool, fake_llm) -> None:
    fake_llm.refuses = ContextOverflow("the prompt has 9000 tokens and the context is 8192; shorten it")
    ran = unspool("run", "Hi")
    assert (ran.exit_code, ran.err) == (2, f"error: {fake_llm.refuses}\n")
    assert fake_llm.is_closed


def test_an_error_half_way_keeps_the_text_and_fails(unspool, fake_llm) -> None:
    fake_llm.fails = ModelFileError("m.gguf", "blk.0", "is gone")
    ran = unspool("run", "Hi")
    assert (ran.exit_code, ran.out) == (1, "Once upon a time.\n")
    assert ran.err == "error: m.gguf: blk.0: is gone\n"
    assert unspool("run", "Hi", "--json").exit_code == 1


def test_a_terminal_without_a_prompt_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    with pytest.raises(BadRequest, match="through a pipe"):
        answer.read_prompt(None)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(BadRequest, match="through a pipe"):
        answer.read_prompt("-")


def test_an_interrupt_ends_with_130(unspool, fake_llm, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **_how: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake_llm, "stream_chat", interrupted)
    ran = unspool("run", "Hi")
    assert (ran.exit_code, ran.err) == (130, "")
    assert fake_llm.is_closed


def test_ctrl_c_ends_the_answer_with_the_line_that_it_would_have_had(unspool, fake_llm) -> None:
    fake_llm.interrupted_at = 1
    ran = unspool("run", "Hi")
    assert (ran.exit_code, ran.out) == (130, "Once upon and \n")
    assert ran.err.startswith("prompt: 7 tokens (350.0/s) | answer: 1 token | first token: 20 ms")
    assert ran.err.endswith(" | end: interrupted | seed: 41\n")
    assert unspool("run", "Hi", "--quiet").err == ""
    assert fake_llm.is_closed


@pytest.mark.parametrize(
    "arguments",
    [("run", "Hi", "--json"), ("explain", "Hi", "--json"), ("run", "Hi", "-n", "2", "--json")],
)
def test_ctrl_c_leaves_json_what_was_written_and_the_seed(unspool, fake_llm, arguments) -> None:
    fake_llm.interrupted_at = 1
    ran = unspool(*arguments)
    assert ran.exit_code == 130
    assert ran.err.endswith(" | end: interrupted | seed: 41\n")
    told = json.loads(ran.out)
    first, *others = told if "-n" in arguments else [told]
    assert (first["text"], first["token_ids"]) == ("Once upon and ", [0, 1, 9])
    assert (first["finish_reason"], first["seed"]) == ("cancelled", 41)
    assert first["usage"]["prompt_tokens"] == 7
    wanted = [("ONCE ", "cancelled", 1, 41, None)] if "-n" in arguments else []
    keys = ("text", "finish_reason", "branch", "seed", "usage")
    assert [tuple(each[key] for key in keys) for each in others] == wanted


def test_ctrl_c_before_the_first_token_leaves_json_too(unspool, fake_llm) -> None:
    fake_llm.interrupted_at = 0
    ran = unspool("run", "Hi", "--json", "--seed", "7", "-n", "2")
    assert (ran.exit_code, ran.err) == (130, "")
    told = [(each["text"], each["finish_reason"], each["seed"]) for each in json.loads(ran.out)]
    assert told == [("", "cancelled", 7)] * 2


def test_ctrl_c_shows_no_beginnings_of_other_answers(unspool, fake_llm) -> None:
    fake_llm.interrupted_at = 2
    ran = unspool("run", "Hi", "-n", "2")
    assert (ran.exit_code, ran.out.count("---")) == (130, 0)
    assert ran.err.endswith("| seed: 41 | branch: 0\n")


def test_no_arguments_print_the_help(unspool) -> None:
    ran = unspool()
    assert "run" in ran.out
    assert "chat" in ran.out


@pytest.mark.parametrize("arguments", [["--version"], ["-V"]])
def test_the_version_is_answered_without_importing_anything(arguments: list[str]) -> None:
    program = (
        f"import sys\nfrom unspool.cli import main\ncode = main({arguments!r})\n"
        "assert not {'typer', 'rich', 'numpy', 'pydantic'} & set(sys.modules), sorted(sys.modules)\n"
        "sys.exit(code)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("unspool 0.")


def test_the_version_works_among_other_options_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version", "run"]) == 0
    assert capsys.readouterr().out.startswith("unspool ")


def test_help_and_commands_do_not_import_the_engine() -> None:
    program = (
        "import sys\nfrom unspool.cli import main\nmain(['models', 'list'])\n"
        "assert not {'rich', 'numpy', 'tokenizers', 'unspool.llm'} & set(sys.modules), sorted(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("arguments", [["run", "--help"], ["models", "list"], ["models", "list", "--json"]])
def test_a_reader_that_goes_away_is_met_with_silence(arguments: list[str]) -> None:
    program = f"import sys\nfrom unspool.cli import main\nsys.exit(main({arguments!r}))"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    with child.stderr:
        said = child.stderr.read()
    assert (child.wait(), said) == (1, b"")


def _command(*arguments: str, **settings) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "unspool", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=60, check=False, **settings)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [("models", "list"), ("run", "--help"), ("models", "list", "--json")])
def test_a_full_disk_behind_standard_output_is_one_line(command) -> None:
    with open("/dev/full", "wb") as full:
        done = _command(*command, stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: No space left on device")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors by number")
def test_closed_standard_streams_are_an_error_and_no_traceback() -> None:
    done = _command("models", "list", preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr) == (
        1,
        b"error: standard output is closed; send it to a file, or to /dev/null\n",
    )
    done = _command("models", "list", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"smollm2-135m" in done.stdout


def test_memory_that_runs_out_is_one_line(unspool, monkeypatch) -> None:
    def no_memory(*_args, **_settings):
        raise MemoryError

    monkeypatch.setattr("unspool.cli.load.load_llm", no_memory)
    ran = unspool("run", "hi")
    assert (ran.exit_code, ran.out) == (1, "")
    assert ran.err.startswith("error: out of memory; ")


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are Unicode there")
def test_utf8_is_understood_in_a_locale_without_it(monkeypatch) -> None:
    for given in ("h\udcc3\udca9llo", "héllo"):
        assert checked(given, "the prompt") == "héllo"
    with pytest.raises(BadRequest, match="not valid UTF-8"):
        checked("h\udcff", "the prompt")
    with pytest.raises(BadRequest, match="not valid UTF-8"):
        checked("\ud800", "the prompt")


def test_the_version_goes_to_standard_output_or_says_why_not() -> None:
    done = _command("--version", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"unspool ")
    if Path("/dev/full").is_char_device():
        with open("/dev/full", "wb") as full:
            done = _command("--version", stdout=full)
        assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)


def test_an_interrupt_while_the_commands_are_put_together_is_no_traceback(monkeypatch) -> None:
    def interrupted(_app):
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.main.get_command", interrupted)
    assert main(["params"]) == 130


@pytest.mark.parametrize("arguments", [("run",), ("run", "--json"), ("explain",), ("explain", "--json")])
@pytest.mark.parametrize("search", ["stochastic-beam:k=2", "beam-sample"])
def test_ctrl_c_tells_the_seed_of_a_search_that_has_told_nothing_yet(
    unspool, fake_llm, arguments, search
) -> None:
    fake_llm.interrupted_at, fake_llm.tells_late = 1, True
    ran = unspool(*arguments, "Hi", "--search", search)
    assert ran.exit_code == 130
    seed = fake_llm.chats[-1][1].seed
    assert seed is not None
    if "--json" in arguments:
        told = json.loads(ran.out)
        told = told[0] if isinstance(told, list) else told
        assert (told["text"], told["finish_reason"], told["seed"]) == ("", "cancelled", seed)
    else:
        assert ran.out.strip() == ""
    assert ran.err == f"end: interrupted | seed: {seed}\n"
    assert unspool(*arguments, "Hi", "--search", search, "--quiet").err == ""
    unspool(*arguments, "Hi", "--search", search)
    assert fake_llm.chats[-1][1].seed != seed, "a fresh one each time"
    assert unspool(*arguments, "Hi", "--search", search, "--seed", "7").err.endswith("| seed: 7\n")
    assert unspool(*arguments, "Hi", "--search", "beam").err == "end: interrupted\n", "nothing is drawn"


@pytest.mark.parametrize("search", ["stochastic-beam:k=2", "beam-sample", "beam"])
@pytest.mark.parametrize("at", [3, 9])
def test_ctrl_c_ends_a_search_of_a_model_at_once_and_tells_its_seed(
    search, at, tmp_path, capfd, monkeypatch
) -> None:
    kind = type(search_of(search, None))
    advance, n_steps = kind.advance, 0
    receive, on_interrupt = EventStream._receive, Interrupts._on_interrupt
    is_waiting, is_heard = threading.Event(), threading.Event()

    def waiting(stream):
        is_waiting.set()
        receive(stream)

    def heard(*arguments):
        is_heard.set()
        on_interrupt(*arguments)

    def interrupted(*arguments, **settings):
        nonlocal n_steps
        n_steps += 1
        if n_steps == at:
            assert is_waiting.wait(30)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            assert is_heard.wait(30)
        return advance(*arguments, **settings)

    monkeypatch.setattr(EventStream, "_receive", waiting)
    monkeypatch.setattr(Interrupts, "_on_interrupt", heard)
    monkeypatch.setattr(kind, "advance", interrupted)
    path = str(write_tiny_llm(tmp_path / "tiny.gguf"))
    how = ["run", "Hi", "--raw", "--model", path, "--search", search, "--max-tokens", "60"]
    assert main([*how, "--set", "ignore_eos=true"]) == 130
    told = capfd.readouterr().err
    assert told.count("end: ") == told.count("end: interrupted") == 1, "with figures between two events"
    assert ("| seed: " in told) == (search != "beam")
    assert n_steps < 60


def test_ctrl_c_tells_of_the_answer_that_it_broke_off_and_not_of_one_that_had_ended(
    capsys, monkeypatch
) -> None:
    usage = Usage(7, 0, 1, 0.5, 20.0, 0.02, 0.1, 0)

    def broken_off():
        yield Event(0, "one", (1,), branch=1, finish_reason="stop", usage=usage, seed=5)
        yield Event(0, "two", (2,), branch=0, finish_reason="cancelled", usage=usage, seed=5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        all_of(broken_off(), Decoding.of(DEFAULT_PROFILE, {}), quiet=False)
    assert capsys.readouterr().err.endswith("| end: interrupted | seed: 5\n")
