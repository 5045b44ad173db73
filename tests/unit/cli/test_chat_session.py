from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from unspool import Beam, BeamSample, ConstrainedBeam, DiverseBeam, StochasticBeam
from unspool.cli import chat_file
from unspool.cli.chat_commands import COMMANDS, handle
from unspool.cli.chat_session import ChatSession, Turn, Written
from unspool.cli.decoding import Decoding
from unspool.errors import BadRequest, ContextOverflow, ModelFileError, UnspoolError


@pytest.fixture
def session() -> ChatSession:
    return ChatSession("some-model", Decoding.of())


def talk(session: ChatSession, llm, text: str) -> str:
    assert handle(session, text).then == "answer"
    return "".join(event.text for event in session.answer(llm))


def test_an_answer_is_streamed_and_kept(session, fake_llm) -> None:
    assert talk(session, fake_llm, "Hi") == "Once upon a time."
    assert session.turns == [Turn("Hi", "Once upon a time.")]
    assert fake_llm.chats[0][0] == [{"role": "user", "content": "Hi"}]


def test_every_turn_is_sent_again_with_the_system_message_first(session, fake_llm) -> None:
    handle(session, "/system Be kind.")
    talk(session, fake_llm, "One")
    talk(session, fake_llm, "Two")
    assert [message["role"] for message in fake_llm.chats[1][0]] == ["system", "user", "assistant", "user"]
    assert fake_llm.chats[1][0][-1]["content"] == "Two"


def test_an_answer_that_is_stopped_early_keeps_what_was_written(session, fake_llm) -> None:
    handle(session, "Hi")
    events = session.answer(fake_llm)
    next(events)
    next(events)
    events.close()
    assert session.turns == [Turn("Hi", "Once upon ")]
    assert fake_llm.n_streams_closed == 1
    talk(session, fake_llm, "Go on")
    assert fake_llm.chats[1][0][1] == {"role": "assistant", "content": "Once upon "}


def test_an_answer_stopped_before_its_first_token_leaves_the_message_waiting(session, fake_llm) -> None:
    fake_llm.pieces = ("", "", "late")
    handle(session, "Hi")
    events = session.answer(fake_llm)
    next(events)
    events.close()
    assert session.turns == [Turn("Hi", None)]


def test_an_empty_answer_is_an_answer(session, fake_llm) -> None:
    fake_llm.pieces = ()
    assert talk(session, fake_llm, "Hi") == ""
    assert session.turns == [Turn("Hi", "")]


def test_a_refused_message_waits_for_retry(session, fake_llm) -> None:
    talk(session, fake_llm, "One")
    fake_llm.refuses = ContextOverflow("too long")
    with pytest.raises(ContextOverflow):
        talk(session, fake_llm, "Two")
    assert session.turns[-1] == Turn("Two", None)
    fake_llm.refuses = None
    assert handle(session, "/forget").text.startswith("forgot the oldest 1 turn; 1 turn left")
    assert handle(session, "/retry").then == "answer"
    assert "".join(event.text for event in session.answer(fake_llm)) == "Once upon a time."
    assert fake_llm.chats[-1][0] == [{"role": "user", "content": "Two"}]


def test_a_new_message_takes_the_place_of_a_refused_one(session, fake_llm) -> None:
    fake_llm.refuses = ContextOverflow("too long")
    with pytest.raises(ContextOverflow):
        talk(session, fake_llm, "Long")
    fake_llm.refuses = None
    talk(session, fake_llm, "Short")
    assert session.turns == [Turn("Short", "Once upon a time.")]


def test_an_answer_that_fails_half_way_keeps_what_was_written(session, fake_llm) -> None:
    fake_llm.fails = ModelFileError("m", "blk.0", "is gone")
    with pytest.raises(ModelFileError):
        talk(session, fake_llm, "Hi")
    assert session.turns == [Turn("Hi", "Once upon a time.")]


def test_undo_takes_back_message_and_answer(session, fake_llm) -> None:
    talk(session, fake_llm, "One")
    talk(session, fake_llm, "Two")
    handle(session, "/undo")
    assert [turn.user for turn in session.turns] == ["One"]


def test_retry_asks_the_last_message_again(session, fake_llm) -> None:
    talk(session, fake_llm, "One")
    fake_llm.pieces = ("Another.",)
    outcome = handle(session, "/retry")
    assert (outcome.then, outcome.text) == ("answer", "")
    assert [event.text for event in session.answer(fake_llm)] == ["Another.", ""]
    assert session.turns == [Turn("One", "Another.")]


@pytest.mark.parametrize("setting", ["/set temperature 0", "/set seed 1"])
def test_retry_warns_when_the_same_text_would_come(session, fake_llm, setting: str) -> None:
    talk(session, fake_llm, "One")
    handle(session, setting)
    assert "the same text" in handle(session, "/retry").text


def test_clear_keeps_the_system_message_and_the_parameters(session, fake_llm) -> None:
    handle(session, "/system Be kind.")
    handle(session, "/set top_k 5")
    talk(session, fake_llm, "One")
    handle(session, "/clear")
    assert (session.turns, session.system, session.params.top_k) == ([], "Be kind.", 5)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("/set temperature=0.2", "temperature", 0.2),
        ("/set logit-bias 42=-5", "logit_bias", ((42, -5.0),)),
        ("/set temperature 0.2", "temperature", 0.2),
        ("/set top-k 40", "top_k", 40),
        ("/set seed 7", "seed", 7),
        ("/set seed none", "seed", None),
        ("/set max_tokens none", "max_tokens", None),
        ("/set ignore_eos true", "ignore_eos", True),
        ("/set stop END", "stop", ("END",)),
        ('/set stop ["a", "b"]', "stop", ("a", "b")),
        ('/set stop "\\n\\n"', "stop", ("\n\n",)),
        ("/set stop 5", "stop", ("5",)),
        ("/set stop none", "stop", ("none",)),
        ("/set stop_token_ids [1, 2]", "stop_token_ids", (1, 2)),
        ("/set temperature default", "temperature", 0.8),
        ("/set stop default", "stop", ()),
        ("/set mirostat 2", "mirostat", 2),  # the profile's top_p gives way
        ("/set logit_bias 42=-5", "logit_bias", ((42, -5.0),)),
    ],
)
def test_set_changes_any_parameter(session, line: str, name: str, value: object) -> None:
    outcome = handle(session, line)
    held = getattr(session.params, name)
    assert (tuple(held) if isinstance(held, (list, tuple)) else held) == value
    assert outcome.text.startswith(f"{name} = ")


def test_set_alone_shows_all_and_with_a_name_shows_one(session) -> None:
    assert "temperature = 0.8\n" in handle(session, "/set").text
    assert handle(session, "/set seed").text == "seed = none"


def test_set_says_what_was_typed_and_cannot_matter(session) -> None:
    assert handle(session, "/set temperature 0").text == "temperature = 0"  # top_p is the default
    assert "change nothing: top_p" in handle(session, "/set top_p 0.9").text
    handle(session, "/set temperature 1")
    handle(session, "/set top_p 0.5")
    assert "change nothing: top_p" in handle(session, "/set temperature 0").text
    assert handle(session, "/set top_k").text == "top_k = 0"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/set temperature -1", "temperature must be"),
        ("/set temperature hot", "got 'hot'"),
        ("/set top_p 2", "top_p must be"),
        ("/set tempreture 1", "temperature"),
        ("/set tempreture", "temperature"),
        ("/set tempreture default", "temperature"),
        ("/set top_k 1.5", "top_k must be a whole number"),
        ("/set replace default", "no parameter 'replace'"),
        ("/set logprobs 3", "unspool run --json"),
        ("/profile chatt", "did you mean 'chat'"),
        ("/profile json", "needs a JSON schema"),
        ("/nonsense", "/help lists them"),
        ("/undu", "did you mean /undo?"),
        ("/undo now", "/undo takes nothing"),
        ("/forget two", "takes a number"),
        ("/forget 1", "there is no turn to forget"),
        ("/undo", "nothing to undo"),
        ("/retry", "nothing to retry"),
        ("/save", "give a file name"),
        ("   ", "the message is empty"),
    ],
)
def test_a_bad_command_is_refused_and_changes_nothing(session, line: str, said: str) -> None:
    before = (session.params, session.system, list(session.turns))
    with pytest.raises(BadRequest, match=said):
        handle(session, line)
    assert (session.params, session.system, session.turns) == before


def test_two_slashes_say_one(session, fake_llm) -> None:
    talk(session, fake_llm, "//etc is a folder")
    assert session.turns[0].user == "/etc is a folder"


def test_help_names_every_command(session) -> None:
    text = handle(session, "/help").text
    assert all(f"/{name}" in text for name, command in COMMANDS.items() if command.help)


def test_system_is_shown_set_and_removed(session) -> None:
    assert handle(session, "/system").text == "no system message"
    handle(session, "/system Be kind.")
    assert handle(session, "/system").text == "system: Be kind."
    handle(session, "/system none")
    assert session.system is None


def test_stats_add_up(session, fake_llm) -> None:
    assert handle(session, "/stats").text == "no complete answer yet"
    talk(session, fake_llm, "One")
    talk(session, fake_llm, "Two")
    text = handle(session, "/stats").text
    assert "2 complete answers, 14 prompt and 6 answer tokens" in text
    assert "last: prompt: 7 tokens" in text


@pytest.mark.parametrize("line", ["/exit", "/quit"])
def test_exit_leaves(session, line: str) -> None:
    assert handle(session, line).then == "leave"


def test_another_profile_goes_under_what_was_set(session) -> None:
    handle(session, "/set top_k 7")
    text = handle(session, "/profile creative").text
    assert text.startswith("profile creative: Stories")
    assert "set over it: top_k = 7" in text
    assert (session.params.presence_penalty, session.params.top_k) == (0.6, 7)
    handle(session, "/set presence_penalty 0")
    handle(session, "/set presence_penalty default")
    assert session.params.presence_penalty == 0.6
    assert handle(session, "/profile").text.startswith("profile creative: ")


def test_a_profile_that_samples_instead_of_searching_says_so(session) -> None:
    assert "beam search" in handle(session, "/profile summarise").text


def test_a_loaded_chat_has_its_own_parameters_over_the_profile(session, tmp_path: Path) -> None:
    handle(session, "/profile creative")
    handle(session, "/set mirostat 2")
    chat_file.save(session, tmp_path / "chat")
    other = ChatSession("some-model", Decoding.of())
    handle(other, f"/load {tmp_path / 'chat'}")
    assert other.params == session.params
    handle(other, "/set mirostat default")
    assert other.params.mirostat == 0


def test_what_is_saved_is_loaded_again(session, fake_llm, tmp_path: Path) -> None:
    handle(session, '/system Sei höflich 🙂 "immer".')
    handle(session, "/set stop END")
    handle(session, "/set max_tokens none")
    talk(session, fake_llm, "Grüß dich\n\tTab")
    path = tmp_path / "my chat.json"
    assert handle(session, f"/save {path}").text == f"saved 1 turn to {path}"
    assert [p.name for p in tmp_path.iterdir()] == ["my chat.json"]
    other = ChatSession("some-model", Decoding.of("factual"))
    said = handle(other, f"/load {path}").text
    assert said == f"loaded 1 turn from {path}, with the system message and parameters"
    assert (other.turns, other.system, other.params) == (session.turns, session.system, session.params)


@pytest.mark.parametrize(
    "search",
    [
        Beam(width=3, alpha=0.6),
        BeamSample(width=2),
        DiverseBeam(width=4, groups=2),
        StochasticBeam(k=1),
        ConstrainedBeam(phrases=["sea", ["a", "b"], [3, 4]], width=9),
        None,
    ],
)
def test_the_search_is_saved_and_loaded_again(session, tmp_path: Path, search) -> None:
    session.chosen, session.is_chosen = search, True
    chat_file.save(session, tmp_path / "c")
    other = ChatSession("some-model", Decoding.of())
    text = handle(other, f"/load {tmp_path / 'c'}").text
    assert (other.search, other.is_chosen) == (search, True)
    assert ("\nsearch: " in text) == (search is not None)
    if search == Beam(width=3, alpha=0.6):
        assert text.endswith("\nsearch: beam:width=3,alpha=0.6")


def test_a_search_under_another_profile_goes_on_without_it(session, tmp_path: Path) -> None:
    session.decoding = Decoding.of("summarise", has=("beam",))
    assert session.search == Beam(width=4, length_norm="gnmt", alpha=0.6)
    chat_file.save(session, tmp_path / "c")
    other = ChatSession("some-model", Decoding.of())
    handle(other, f"/load {tmp_path / 'c'}")
    assert other.asked == session.asked


def test_a_profile_brings_its_search_and_what_it_has_no_meaning_for_is_refused(session) -> None:
    session.decoding = Decoding.of(has=("beam",))
    text = handle(session, "/profile translate").text
    assert "\nsearch: beam:length_norm=gnmt,alpha=0.6\n" in f"{text}\n"
    with pytest.raises(BadRequest, match="top_k=3 has no meaning in a beam search"):
        handle(session, "/set top_k 3")
    assert "search:" not in handle(session, "/profile chat").text
    handle(session, "/set top_k 3")
    session.chosen, session.is_chosen = None, True
    assert "search:" not in handle(session, "/profile translate").text, "somebody said to sample"


def test_a_profile_that_is_named_later_takes_the_place_of_a_files_search(session, tmp_path: Path) -> None:
    chat_file.save(session, tmp_path / "c")
    other = ChatSession("some-model", Decoding.of(has=("beam",)))
    handle(other, f"/load {tmp_path / 'c'}")
    assert other.search is None
    other.decoding = other.decoding.setting(top_k=3)
    with pytest.raises(BadRequest, match="top_k=3 has no meaning"):
        handle(other, "/profile translate")
    assert (other.search, other.decoding.profile_label) == (None, "default")
    handle(other, "/set top_k default")
    assert "\nsearch: beam:length_norm=gnmt,alpha=0.6" in handle(other, "/profile translate").text


def test_a_file_of_the_first_version_is_read_and_changes_no_search(session, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(saved())
    session.chosen, session.is_chosen = Beam(), True
    with pytest.raises(BadRequest, match=r"temperature=0\.5 has no meaning in a beam search"):
        chat_file.load(session, tmp_path / "c")
    assert session.turns == []
    session.chosen = BeamSample()
    assert chat_file.load(session, tmp_path / "c") == Written("m", None)
    assert (session.search, session.turns) == (BeamSample(), [Turn("a", "b")])


def test_a_message_that_waits_is_saved_too(session, tmp_path: Path) -> None:
    handle(session, "Hi")
    chat_file.save(session, tmp_path / "c")
    other = ChatSession("another-model", Decoding.of("factual"))
    assert chat_file.load(other, tmp_path / "c") == Written("some-model", None)
    assert other.turns == [Turn("Hi", None)]
    assert "another-model goes on" in handle(other, f"/load {tmp_path / 'c'}").text


def test_saving_where_one_cannot_leaves_nothing(session, tmp_path: Path) -> None:
    with pytest.raises(UnspoolError, match=r"cannot save .*: there is no folder .*/no/such; choose another"):
        handle(session, f"/save {tmp_path}/no/such/folder.json")
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(UnspoolError, match="cannot save"):
        handle(session, f"/save {folder}")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def saved(**changes: object) -> bytes:
    content = {
        "format": "unspool-chat",
        "version": 1,
        "model": "m",
        "system": None,
        "params": {"temperature": 0.5},
        "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    }
    return json.dumps(content | changes).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "cannot load"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not a saved chat"),
        (saved(format="other"), "not a saved chat"),
        (saved(version=3), "version is 3 and must be 1 or 2"),
        (saved(version=0), "version is 0 and must be 1 or 2"),
        (saved(version=True), "version is True and must be 1 or 2"),
        (saved(comment="x"), "comment is 'x' and has no place in a saved chat"),
        (saved(search={"name": "beam"}), "search is .* and has no place in a saved chat"),
        (saved(version=2), "search: a search must have a name, one of .*; got None"),
        (saved(version=2, search={"name": "bean"}), "search: a search must have a name"),
        (saved(version=2, search={"name": "sample", "width": 2}), "search: a search must have a name"),
        (saved(version=2, search={"name": "beam", "depth": 2}), "search: search beam has no setting 'depth'"),
        (saved(version=2, search={"name": "beam", "width": 0}), "search: width must be"),
        (saved(version=2, search={"name": "beam", "n_best": 2}), "search: the search has 2 answers"),
        (
            saved(version=2, search={"name": "constrained-beam"}),
            "search: search constrained-beam needs phrases",
        ),
        (saved(version=2, search={"name": "sample"}, amateur=5), "amateur is 5 and must be a text or null"),
        (saved(system=5), "system is 5"),
        (saved(model=None), "model is None"),
        (saved(params=[]), "params is"),
        (saved(params={"temperature": -1}), "params: temperature must be"),
        (saved(params={"warmth": 1}), "params: there is no parameter 'warmth'"),
        (saved(messages={}), "must be a list"),
        (saved(messages=["a"]), r"messages\[0\] is 'a'"),
        (saved(messages=[{"role": "assistant", "content": "a"}]), "must have the role 'user'"),
        (saved(messages=[{"role": "user", "content": 1}]), r"messages\[0\].content is 1"),
        (saved(messages=[{"role": "user", "content": "x" * 100}] * 2), "role 'assistant'"),
    ],
)
def test_a_bad_file_is_refused_and_changes_nothing(session, tmp_path: Path, data, said: str) -> None:
    path = tmp_path / "chat.json"
    if data is not None:
        path.write_bytes(data)
    handle(session, "Hi")
    before = (session.params, session.system, list(session.turns))
    with pytest.raises(BadRequest, match=said) as caught:
        handle(session, f"/load {path}")
    assert caught.value.code == "chat_file"
    assert "\n" not in str(caught.value)
    assert (session.params, session.system, session.turns) == before


def test_a_huge_file_is_not_read_into_memory(
    session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_file, "MAX_BYTES", 10)
    (tmp_path / "c").write_bytes(b" " * 11)
    with pytest.raises(BadRequest, match="more than 10 bytes"):
        handle(session, f"/load {tmp_path / 'c'}")


@pytest.mark.parametrize("command", ["/save", "/load"])
@pytest.mark.parametrize("name", ["a\0b", "~no-such-user-here/x/y", "n" * 5000])
def test_a_name_that_no_file_can_have_is_one_line(session, command: str, name: str) -> None:
    with pytest.raises(UnspoolError, match=r"^cannot (save|load) .*; (choose another file|check the name)$"):
        handle(session, f"{command} {name}")


def test_an_interrupted_save_leaves_no_half_file(session, tmp_path: Path, monkeypatch) -> None:
    def interrupt(_fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        chat_file.save(session, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_not_replaced_by_a_conversation(session, tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UnspoolError, match="it is no regular file; choose another file"):
        chat_file.save(session, pipe)
    assert pipe.is_fifo()
