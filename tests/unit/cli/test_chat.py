from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

import pytest
from fake_stream import FakeStream

from unspool.cli import chat, main
from unspool.cli.chat_session import ChatSession, Turn
from unspool.cli.decoding import Decoding
from unspool.errors import BadRequest, ContextOverflow
from unspool.params import DEFAULT_MAX_TOKENS
from unspool.search.beam import Beam
from unspool.search.beam_sample import BeamSample
from unspool.search.constrained_beam import ConstrainedBeam
from unspool.search.stochastic_beam import StochasticBeam
from unspool.types import Event, Usage


def typed(*lines: str | type[BaseException]) -> Callable[[str], str | None]:
    """A terminal on which these lines are typed; an exception stands for Ctrl-C."""
    left = iter(lines)

    def read_line(_prompt: str) -> str | None:
        line = next(left, None)
        if isinstance(line, type):
            raise line
        return line

    return read_line


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["hello"], "hello"),
        (["one \\", "two\\", "three"], "one \ntwo\nthree"),
        (["one \\"], "one "),
        (['"""', "def f():", "    pass", '"""'], "def f():\n    pass"),
        (['"""a', 'b"""'], "a\nb"),
        (['"""one"""'], "one"),
        (['"""', "", "x", "", '"""'], "\nx\n"),
        ([], None),
    ],
)
def test_a_message_may_have_several_lines(lines: list[str], message: str | None) -> None:
    assert chat.read_message(typed(*lines)) == message


def test_an_open_fence_at_the_end_is_an_error() -> None:
    with pytest.raises(BadRequest, match="has no end"):
        chat.read_message(typed('"""', "text"))


def test_a_script_of_lines_is_answered_line_by_line(unspool, fake_llm) -> None:
    ran = unspool("chat", stdin=b"Hi\n\n/set top_k 3\n/system Be brief.\r\nMore\n/exit\nnever read\n")
    assert ran.exit_code == 0, ran.err
    assert ran.out == "Once upon a time.\nOnce upon a time.\n"
    assert [messages[-1]["content"] for messages, _ in fake_llm.chats] == ["Hi", "More"]
    assert fake_llm.chats[1][0][0] == {"role": "system", "content": "Be brief."}
    assert fake_llm.chats[1][1].top_k == 3
    assert "top_k = 3" in ran.err
    assert ran.err.count("answer: 3 tokens") == 2
    assert fake_llm.is_closed


def test_quiet_leaves_answers_alone(unspool, fake_llm) -> None:
    assert unspool("chat", "-q", stdin=b"Hi\n").err == ""


def test_the_first_error_ends_a_script(unspool, fake_llm) -> None:
    ran = unspool("chat", "-q", stdin=b"Hi\n/set top_p 7\nMore\n")
    assert ran.exit_code == 2
    assert ran.err.startswith("error: top_p must be")
    assert len(fake_llm.chats) == 1
    assert unspool("chat", stdin=b"\xff\n").exit_code == 2


def test_a_model_without_a_template_cannot_chat(unspool, fake_llm) -> None:
    fake_llm.lose_template()
    ran = unspool("chat", "--model", "gemma3-270m", stdin=b"Hi\n")
    assert ran.exit_code == 2
    assert "unspool run --raw --model gemma3-270m" in ran.err
    assert fake_llm.is_closed


def test_a_saved_chat_goes_on_from_the_command_line(unspool, fake_llm, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    unspool("chat", stdin=f"Hi\n/save {path}\n".encode())
    unspool("chat", "--load", str(path), stdin=b"More\n")
    assert [message["content"] for message in fake_llm.chats[1][0]] == ["Hi", "Once upon a time.", "More"]
    missing = unspool("chat", "--load", str(tmp_path / "none"))
    assert missing.exit_code == 2
    assert "cannot load" in missing.err


def test_decoding_options_given_beside_load_win_over_the_file(unspool, fake_llm, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    unspool("chat", "--temperature", "0.3", "--top-k", "9", stdin=f"Hi\n/save {path}\n".encode())
    unspool("chat", "--load", str(path), "--top-k", "4", "--system", "New.", stdin=b"More\n")
    messages, params = fake_llm.chats[1]
    assert (params.temperature, params.top_k) == (0.3, 4)
    assert messages[0] == {"role": "system", "content": "New."}


def test_a_profile_given_beside_load_takes_the_place_of_the_files_parameters(
    unspool, fake_llm, tmp_path: Path
) -> None:
    path = tmp_path / "chat.json"
    unspool("chat", "--temperature", "0.3", stdin=f"Hi\n/save {path}\n".encode())
    ran = unspool("chat", "--load", str(path), "--profile", "creative", stdin=b"More\n")
    params = fake_llm.chats[1][1]
    assert (params.temperature, params.presence_penalty) == (1, 0.6)
    assert "profile: creative" in ran.err


def test_reports_are_no_options_of_a_chat(unspool, fake_llm) -> None:
    assert "`unspool chat` has no --logprobs" in unspool("chat", "--logprobs", "3").err
    assert "set by this command" in unspool("chat", "--set", "trace=true").err


@pytest.fixture
def session() -> ChatSession:
    return ChatSession("m", Decoding.of())


def test_at_a_terminal_an_error_is_shown_and_the_chat_goes_on(session, fake_llm, capsys) -> None:
    chat.talk(session, fake_llm, typed("/nonsense", "Hi"), quiet=True, forgiving=True)
    captured = capsys.readouterr()
    assert captured.err.startswith("error: there is no command /nonsense")
    assert captured.out == "Once upon a time.\n"


def test_a_full_context_says_how_to_make_room(session, fake_llm, capsys) -> None:
    chat.talk(session, fake_llm, typed("One"), quiet=True, forgiving=True)
    fake_llm.refuses = ContextOverflow("the context is full")
    chat.talk(session, fake_llm, typed("Two"), quiet=True, forgiving=True)
    assert "/forget drops the oldest turn, then /retry asks again" in capsys.readouterr().err


def test_an_interrupt_at_the_prompt_does_not_leave(session, fake_llm, capsys) -> None:
    chat.talk(session, fake_llm, typed(KeyboardInterrupt, "Hi"), quiet=True, forgiving=True)
    captured = capsys.readouterr()
    assert "Ctrl-D or /exit leaves" in captured.err
    assert captured.out == "Once upon a time.\n"


def test_an_interrupt_in_a_script_ends_it(session, fake_llm) -> None:
    with pytest.raises(KeyboardInterrupt):
        chat.talk(session, fake_llm, typed(KeyboardInterrupt), quiet=True, forgiving=False)


def interrupting(pieces: Iterable[str], before: int, times: int = 1) -> FakeStream:
    usage = Usage(7, 0, 2, 0.5, 20.0, 0.02, 0.1, 1)
    last = Event(request_id=0, text="", token_ids=(), finish_reason="cancelled", usage=usage)
    return FakeStream(interrupted(pieces, before, times), last)


def interrupted(pieces: Iterable[str], before: int, times: int) -> Generator[Event, None, None]:
    for index, piece in enumerate(pieces):
        if index == before:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
        yield Event(request_id=0, text=piece, token_ids=(index,))


PIECES = ["Once ", "upon ", "a time."]


def test_an_interrupt_stops_the_answer_between_tokens_and_keeps_it(session, fake_llm, capsys) -> None:
    fake_llm.stream_chat = lambda messages, params, n=1: interrupting(PIECES, before=1)
    handler = signal.getsignal(signal.SIGINT)
    chat.talk(session, fake_llm, typed("Hi"), quiet=True, forgiving=True)
    captured = capsys.readouterr()
    assert captured.out == "Once upon \n"
    assert "stopped; what was written is kept" in captured.err
    assert session.turns == [Turn("Hi", "Once upon ")]
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_shows_the_seed_and_counts_no_complete_answer(session, fake_llm, capsys) -> None:
    fake_llm.interrupted_at = 1
    chat.talk(session, fake_llm, typed("Hi", "/stats"), quiet=False, forgiving=True)
    captured = capsys.readouterr()
    assert captured.out == "Once upon and \n"
    assert "| end: interrupted | seed: 41\n(stopped; what was written is kept" in captured.err
    assert "no complete answer yet" in captured.err
    assert session.turns == [Turn("Hi", "Once upon and ")]


def test_an_interrupt_before_the_first_token_leaves_the_message_waiting(session, fake_llm, capsys) -> None:
    fake_llm.stream_chat = lambda messages, params, n=1: interrupting(PIECES, before=0)
    chat.talk(session, fake_llm, typed("Hi"), quiet=True, forgiving=True)
    assert "/retry asks again" in capsys.readouterr().err
    assert session.turns == [Turn("Hi", None)]


def test_a_second_interrupt_stops_at_once(session, fake_llm, capsys) -> None:
    fake_llm.stream_chat = lambda messages, params, n=1: interrupting(PIECES, before=1, times=2)
    chat.talk(session, fake_llm, typed("Hi"), quiet=True, forgiving=True)
    assert session.turns == [Turn("Hi", "Once ")]


def test_an_interrupt_while_a_script_is_answered_ends_it(unspool, fake_llm) -> None:
    fake_llm.stream_chat = lambda messages, params, n=1: interrupting(PIECES, before=1)
    ran = unspool("chat", stdin=b"Hi\nMore\n")
    assert (ran.exit_code, ran.out) == (130, "Once upon \n")


def test_without_standard_input_chat_says_so(fake_llm, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["chat"]) == 2
    assert "no standard input" in capsys.readouterr().err


def test_an_answer_may_be_looked_for_with_a_beam(unspool, fake_llm) -> None:
    ran = unspool("chat", "--search", "beam:width=3", "--quiet", stdin=b"hello\n")
    assert ran.exit_code == 0, ran.err
    assert fake_llm.searches == [Beam(width=3)]
    (_, params) = fake_llm.chats[0]
    assert (params.temperature, params.top_p) == (1.0, 1.0), "nothing is drawn"


@pytest.mark.parametrize("profile", ["translate", "summarise"])
def test_a_profile_that_is_meant_for_a_beam_has_its_answers_looked_for_so(unspool, fake_llm, profile) -> None:
    ran = unspool("chat", "--profile", profile, "--quiet", stdin=b"hello\n/profile chat\nmore\n")
    assert ran.exit_code == 0, ran.err
    assert fake_llm.searches == [Beam(width=4, length_norm="gnmt", alpha=0.6), None]
    params = [params for _, params in fake_llm.chats]
    assert [each.temperature for each in params] == [1.0, 0.8]
    ran = unspool("chat", "--profile", profile, "--search", "sample", "--quiet", stdin=b"hello\n")
    assert fake_llm.searches[-1] is None


def test_a_search_goes_on_with_the_conversation_unless_another_is_typed(unspool, fake_llm, tmp_path) -> None:
    for options in (["--session", str(tmp_path / "a")], ["--load", str(tmp_path / "b")]):
        lines = f"hello\n/save {tmp_path / 'b'}\n".encode()
        begin = options if options[0] == "--session" else []
        unspool("chat", *begin, "--search", "beam:width=3", "--quiet", stdin=lines)
        for more, search, temperature in (
            ([], Beam(width=3), 1.0),
            (["--search", "beam:width=5"], Beam(width=5), 1.0),
            (["--search", "sample"], None, 0.8),
            (["--profile", "creative"], None, 1.0),
        ):
            ran = unspool("chat", "--load", str(tmp_path / "b"), *more, "--quiet", stdin=b"more\n")
            assert ran.exit_code == 0, ran.err
            assert fake_llm.searches[-1] == search
            assert fake_llm.chats[-1][1].temperature == temperature
        fake_llm.asked = {}
        ran = unspool("chat", *options, "--top-k", "3", "--quiet", stdin=b"more\n")
        assert (ran.exit_code, fake_llm.asked) == (2, {}), "refused before a model is loaded"
        assert "top_k=3 has no meaning in a beam search" in ran.err


def test_what_the_command_line_takes_the_place_of_in_a_file_is_told_and_done(
    unspool, fake_llm, tmp_path
) -> None:
    saved = str(tmp_path / "c")
    how = ("--search", "beam-sample:width=3", "--top-k", "9", "--max-tokens", "50", "--system", "Old.")
    assert unspool("chat", *how, stdin=f"Hi\n/save {saved}\n".encode()).exit_code == 0
    loaded = f"loaded 1 turn from {saved}, with the system message and parameters\n"
    for options, told, search in (
        ([], "search: beam-sample:width=3\n", BeamSample(width=3)),
        (
            ["--profile", "creative"],
            "the command line wins over the file: profile creative (not its parameters), search = sample "
            "(not beam-sample:width=3)\n",
            None,
        ),
        (
            ["--profile", "default"],
            "the command line wins over the file: profile default (not its parameters), search = sample (not "
            "beam-sample:width=3)\n",
            None,
        ),
        (
            ["--max-tokens", "7", "--top-k", "9", "--system", "New."],
            "the command line wins over the file: max_tokens = 7 (not 50), the system message\n"
            "search: beam-sample:width=3\n",
            BeamSample(width=3),
        ),
        (
            ["--search", "beam-sample:width=2"],
            "the command line wins over the file: search = beam-sample:width=2 (not beam-sample:width=3)\n"
            "search: beam-sample:width=2\n",
            BeamSample(width=2),
        ),
    ):
        for begin, line in ((["--load", saved], ""), ([], f"/load {saved}\n")):
            ran = unspool("chat", *begin, *options, stdin=f"{line}More\n".encode())
            assert ran.exit_code == 0, ran.err
            assert ran.err.startswith(loaded + told + "prompt: "), ran.err
            assert fake_llm.searches[-1] == search
            wanted = {"--max-tokens": 7, "--profile": DEFAULT_MAX_TOKENS}.get((options or [""])[0], 50)
            assert fake_llm.chats[-1][1].max_tokens == wanted


def test_what_the_chat_says_later_no_longer_wins_over_a_file(unspool, fake_llm, tmp_path) -> None:
    saved = str(tmp_path / "c")
    unspool("chat", "--max-tokens", "50", "--system", "Old.", stdin=f"Hi\n/save {saved}\n".encode())
    lines = f"/set max_tokens 9\n/system None so far.\n/profile chat\n/load {saved}\nMore\n".encode()
    ran = unspool("chat", "--max-tokens", "7", "--system", "New.", "--profile", "creative", stdin=lines)
    assert ran.exit_code == 0, ran.err
    assert "wins over" not in ran.err
    messages, params = fake_llm.chats[-1]
    assert (params.max_tokens, params.presence_penalty, messages[0]["content"]) == (50, 0, "Old.")


def test_a_file_that_does_not_go_with_the_search_that_was_typed_is_refused_and_named(
    unspool, fake_llm, tmp_path
) -> None:
    saved = str(tmp_path / "c")
    unspool("chat", "--temperature", "0.3", stdin=f"Hi\n/save {saved}\n".encode())
    fake_llm.asked = {}
    ran = unspool("chat", "--load", saved, "--search", "beam", stdin=b"More\n")
    assert (ran.exit_code, fake_llm.asked) == (2, {})
    assert ran.err == (
        "error: temperature=0.3 has no meaning in a beam search, which draws nothing; temperature is of "
        f"{saved}: begin the chat with --temperature 1, or with another --search\n"
    )
    ran = unspool("chat", "--load", saved, "--search", "beam", "--temperature", "1", stdin=b"More\n")
    assert ran.exit_code == 0, ran.err
    ran = unspool("chat", "--search", "beam", stdin=f"/load {saved}\n".encode())
    assert ran.err.endswith("--temperature 1, or with another --search\n")


def test_an_answer_may_have_to_contain_a_phrase(unspool, fake_llm) -> None:
    ran = unspool("chat", "--must-contain", "sea", "--quiet", stdin=b"hello\n")
    assert ran.exit_code == 0, ran.err
    assert fake_llm.searches == [ConstrainedBeam(phrases=["sea"])]


def test_a_chat_goes_on_with_one_answer(unspool, fake_llm) -> None:
    ran = unspool("chat", "--search", "stochastic-beam:k=3", stdin=b"hello\n")
    assert ran.exit_code == 2
    assert "--search stochastic-beam:k=3 has 3 answers and a chat goes on with one" in ran.err
    ran = unspool("chat", "--must-contain", "sea", "--search", "constrained-beam:n_best=2", stdin=b"hello\n")
    assert "--search constrained-beam:n_best=2 has 2 answers and a chat goes on with one" in ran.err
    assert (
        "temperature=0.7 has no meaning in a beam search"
        in unspool("chat", "--search", "beam", "--temperature", "0.7", stdin=b"hello\n").err
    )


def test_what_a_profile_draws_and_a_seed_are_refused_beside_a_search_that_draws_nothing(
    unspool, fake_llm
) -> None:
    ran = unspool("chat", "--search", "beam", stdin=b"/profile creative\n")
    assert "top_p is of profile creative: take another profile, or a search that draws" in ran.err
    ran = unspool("chat", "--search", "beam", "--profile", "creative")
    assert "top_p is of profile creative: take another profile, or a search that draws" in ran.err
    for options, line in ((["--seed", "7"], b"hello\n"), ([], b"/set seed 7\n")):
        ran = unspool("chat", "--search", "beam", *options, stdin=line)
        assert ran.exit_code == 2
        assert "seed=7 has no meaning in a beam search" in ran.err
    assert unspool("chat", "--seed", "7", stdin=b"hello\n").exit_code == 0


def test_an_interrupt_of_a_search_that_has_told_nothing_yet_shows_its_seed(session, fake_llm, capsys) -> None:
    fake_llm.interrupted_at, fake_llm.tells_late = 1, True
    session.chosen, session.is_chosen = StochasticBeam(k=1), True
    chat.talk(session, fake_llm, typed("Hi"), quiet=False, forgiving=True)
    seed = fake_llm.chats[-1][1].seed
    assert seed is not None
    assert f"end: interrupted | seed: {seed}\n" in capsys.readouterr().err
    assert session.turns == [Turn("Hi")]
    assert session.params.seed is None, "a fresh one for each answer"
