"""`unspool chat --session FILE`: yesterday's conversation, its keys and values, and what can go wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tiny_llm import write_tiny_llm

from unspool import loading
from unspool.errors import CapacityError, SessionFileError
from unspool.kv.session_file import read_header


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.session"


def said(path: Path) -> list[str]:
    return [message["content"] for message in read_header(path).note["chat"]["messages"]]


STORY = "Once upon a time."


def test_a_conversation_goes_on_where_it_ended(unspool, fake_llm, path) -> None:
    first = unspool("chat", "--session", str(path), stdin=b"Hi\n/set top_k 3\n/system Be brief.\nMore\n")
    assert first.exit_code == 0, first.err
    assert f"{path} is new: the conversation will be kept there" in first.err
    assert f"kept in {path}, 50 tokens need not be read again" in first.err
    assert said(path) == ["Hi", STORY, "More", STORY]
    second = unspool("chat", "--session", str(path), stdin=b"And now?\n")
    assert second.exit_code == 0, second.err
    assert f"going on with 2 turns from {path}\n50 tokens need not be read again" in second.err
    messages, params = fake_llm.chats[-1]
    assert [message["content"] for message in messages] == [
        "Be brief.",
        "Hi",
        STORY,
        "More",
        STORY,
        "And now?",
    ]
    assert params.top_k == 3
    assert fake_llm.loads == [50]


def test_messages_are_written_after_every_answer_and_keys_and_values_at_the_end(
    unspool, fake_llm, path
) -> None:
    unspool("chat", "--session", str(path), stdin=b"Hi\n\n\nMore\n/exit\n")
    assert fake_llm.saves == [0, 0, 40]


def test_nothing_said_changes_no_file(unspool, fake_llm, path) -> None:
    assert unspool("chat", "--session", str(path), stdin=b"").exit_code == 0
    assert not path.exists()
    unspool("chat", "--session", str(path), stdin=b"Hi\n")
    before = path.read_bytes()
    unspool("chat", "--session", str(path), stdin=b"/help\n")
    assert path.read_bytes() == before
    assert fake_llm.saves == [0, 20]


def test_what_was_typed_wins_over_the_file(unspool, fake_llm, path) -> None:
    unspool("chat", "--session", str(path), "--top-k", "9", "--system", "Old.", stdin=b"Hi\n")
    unspool("chat", "--session", str(path), "--top-k", "4", "--system", "New.", stdin=b"More\n")
    messages, params = fake_llm.chats[1]
    assert params.top_k == 4
    assert messages[0]["content"] == "New."


def test_an_error_and_an_interrupt_keep_what_was_said_before(unspool, fake_llm, path) -> None:
    assert unspool("chat", "--session", str(path), stdin=b"Hi\n/set top_p 7\nMore\n").exit_code == 2
    assert said(path) == ["Hi", STORY]
    assert fake_llm.is_closed

    def interrupt(messages, params):
        raise KeyboardInterrupt

    fake_llm.stream_chat = interrupt
    assert unspool("chat", "--session", str(path), stdin=b"More\n").exit_code == 130
    assert said(path) == ["Hi", STORY, "More"]
    assert fake_llm.saves[-1] == 20, "a message without an answer was perhaps never read"


def test_a_cleared_conversation_is_kept_as_none(unspool, fake_llm, path) -> None:
    unspool("chat", "--session", str(path), stdin=b"Hi\n/clear\n")
    assert said(path) == []
    assert read_header(path).n_tokens == 0


def test_another_models_session_is_refused_in_one_line_with_the_way_out(unspool, fake_llm, path) -> None:
    unspool("chat", "--session", str(path), "--model", "gemma3-270m", stdin=b"Hi\n")
    before = path.read_bytes()
    fake_llm.identity = dataclasses.replace(fake_llm.identity, model="other", model_sha256="z")
    ran = unspool("chat", "--session", str(path), stdin=b"More\n")
    assert (ran.exit_code, ran.out) == (1, "")
    assert ran.err.splitlines()[-1] == (
        f"error: {path}: model: is of 'fake', and 'other' is loaded; load what it was saved with, "
        "or save another session (--model gemma3-270m)"
    )
    assert "going on" not in ran.err, "it does not"
    assert path.read_bytes() == before
    assert fake_llm.is_closed


def test_a_session_that_goes_on_with_other_options_says_so(unspool, fake_llm, path) -> None:
    unspool("chat", "--session", str(path), "--top-k", "9", "--search", "beam-sample", stdin=b"Hi\n")
    ran = unspool("chat", "--session", str(path), "--top-k", "4", "--search", "sample", stdin=b"More\n")
    assert ran.err.startswith(
        f"going on with 1 turn from {path}\nthe command line wins over the file: top_k = 4 (not 9), "
        "search = sample (not beam-sample)\n20 tokens need not be read again\n"
    ), ran.err


def test_a_conversation_of_the_other_kind_is_refused_with_the_option_that_takes_it(
    unspool, fake_llm, path, tmp_path
) -> None:
    saved = tmp_path / "c.json"
    unspool("chat", "--session", str(path), stdin=f"Hi\n/save {saved}\n".encode())
    fake_llm.asked = {}
    ran = unspool("chat", "--load", str(path), stdin=b"More\n")
    assert (ran.exit_code, fake_llm.asked) == (2, {})
    assert ran.err == (
        f"error: {path} is a session file, and no conversation that /save wrote; `unspool chat --session "
        f"{path}` goes on with it\n"
    )
    ran = unspool("chat", "--session", str(saved), stdin=b"More\n")
    assert (ran.exit_code, fake_llm.asked) == (2, {})
    assert ran.err == (
        f"error: {saved} is a conversation that /save wrote, and no session file; --load {saved} goes on "
        "with it\n"
    )


@pytest.mark.parametrize(
    "error",
    [
        SessionFileError("f", "values", "come out otherwise", code="session_stale"),
        CapacityError("no room"),
    ],
)
def test_a_conversation_goes_on_without_keys_and_values_that_cannot_be_used(
    unspool, fake_llm, path, error
) -> None:
    unspool("chat", "--session", str(path), stdin=b"Hi\n")
    fake_llm.cannot_load = error
    ran = unspool("chat", "--session", str(path), stdin=b"More\n")
    assert ran.exit_code == 0
    assert f"note: {error}; " in ran.err
    assert said(path) == ["Hi", STORY, "More", STORY]


def test_a_damaged_file_is_refused_before_a_model_is_loaded_and_stays(unspool, fake_llm, path) -> None:
    unspool("chat", "--session", str(path), stdin=b"Hi\n")
    data = path.read_bytes()
    for damaged in (b"", data[:-3], b"{}", data.replace(b"Hi", b"Ho")):
        path.write_bytes(damaged)
        fake_llm.asked = {}
        ran = unspool("chat", "--session", str(path), stdin=b"More\n")
        assert ran.exit_code == 1
        assert str(path) in ran.err
        assert not fake_llm.asked
        assert path.read_bytes() == damaged


def test_values_that_are_damaged_are_refused(unspool, fake_llm, path) -> None:
    unspool("chat", "--session", str(path), stdin=b"Hi\n")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ran = unspool("chat", "--session", str(path), stdin=b"More\n")
    assert ran.exit_code == 1
    assert "do not match their SHA-256" in ran.err


def test_a_session_without_a_conversation_is_no_chat(unspool, fake_llm, path) -> None:
    fake_llm.save_session(path, [1, 2], note={})
    ran = unspool("chat", "--session", str(path), stdin=b"More\n")
    assert ran.exit_code == 2
    assert "LLM.load_session loads it" in ran.err


def test_two_conversations_are_refused(unspool, fake_llm, path, tmp_path) -> None:
    json_file = tmp_path / "c.json"
    unspool("chat", stdin=f"Hi\n/save {json_file}\n".encode())
    ran = unspool("chat", "--session", str(path), "--load", str(json_file), stdin=b"More\n")
    assert said(path) == ["Hi", STORY, "More", STORY], ran.err
    ran = unspool("chat", "--session", str(path), "--load", str(json_file), stdin=b"More\n")
    assert ran.exit_code == 2
    assert "are two conversations; give one" in ran.err
    assert "takes the name of a file" in unspool("chat", "--session", "").err


def test_a_place_that_cannot_be_written_is_told_once_and_the_chat_goes_on(
    fake_llm, tmp_path, capsys, monkeypatch
) -> None:
    from unspool.cli import chat
    from unspool.cli.chat_kept import KeptChat
    from unspool.cli.chat_session import ChatSession
    from unspool.cli.decoding import Decoding

    session = ChatSession("m", Decoding.of())
    folder = tmp_path / "no"
    folder.mkdir()
    kept = KeptChat(session, str(folder / "file"))
    kept.begin()
    folder.rmdir()  # one that was not there before is refused by `begin`
    lines = iter(["Hi", "", "More"])
    chat.talk(
        session,
        fake_llm,
        lambda _: next(lines, None),
        quiet=True,
        forgiving=True,
        keep=lambda: kept.keep(fake_llm),
    )
    assert capsys.readouterr().err.count("cannot be written") == 2
    with pytest.raises(SessionFileError, match="cannot be written"):
        kept.end(fake_llm)


def test_a_session_of_another_model_is_refused_before_any_weight_is_packed(
    unspool, path, tmp_path, monkeypatch
) -> None:
    one, other = write_tiny_llm(tmp_path / "one.gguf"), write_tiny_llm(tmp_path / "other.gguf", seed=7)
    asked = ("--session", str(path), "--max-tokens", "3", "--threads", "1")
    assert unspool("chat", "--model", str(one), *asked, stdin=b"Hi\n").exit_code == 0
    packed = []
    make = loading.make_runner
    monkeypatch.setattr(loading, "make_runner", lambda *given: packed.append(given) or make(*given))
    ran = unspool("chat", "--model", str(other), *asked, stdin=b"More\n")
    assert (ran.exit_code, ran.out, packed) == (1, "", [])
    assert ran.err == (
        f"error: {path}: model: is of 'one', and 'other' is loaded; load what it was saved with, or save "
        f"another session (--model {one})\n"
    )
    renamed = one.rename(tmp_path / "renamed.gguf")
    ran = unspool("chat", "--model", str(renamed), *asked, stdin=b"More\n")
    assert (ran.exit_code, len(packed)) == (0, 1)
    assert "need not be read again" in ran.err
    ran = unspool("chat", "--model", str(renamed), "--weights", "q8", *asked, stdin=b"More\n")
    assert (ran.exit_code, len(packed)) == (1, 1)
    assert "with other weights is loaded" in ran.err
