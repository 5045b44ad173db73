"""Roles that a chat template knows, and those that it would pass on or leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_llm import write_tiny_llm

from unspool import LLM, DecodingParams
from unspool.errors import BadRequest
from unspool.models.chat_roles import check_roles

PASSING_ON = "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}"
NAMING = (
    "{% for m in messages %}{% if m.role == 'user' %}U: {{ m.content }}\n"
    "{% elif m['role'] in ('assistant', 'narrator') %}A: {{ m.content }}\n{% endif %}{% endfor %}"
)
IN_PARTS = (
    "{% for m in messages %}{% if m.role == 'user' %}{% for part in m.content %}{{ part.text }}{% endfor %}"
    "{% endif %}{% endfor %}"
)
ONE = DecodingParams(max_tokens=1, temperature=0)


def chat(folder: Path, template: str, *messages: tuple[str, Any]) -> str:
    """What the template makes of them, once the model has answered."""
    given = [{"role": role, "content": content} for role, content in messages]
    with LLM(write_tiny_llm(folder / "tiny.gguf", chat_template=template)) as llm:
        llm.chat(given, ONE)
        llm.chat(given, ONE.replace(penalty_exclude_template=True))
        list(llm.stream_chat(given, ONE))
        return llm.chat_template.render(given)


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool", "developer", "function"])
def test_a_template_that_passes_roles_on_takes_those_of_chats(tmp_path, role):
    assert f"[{role}] Hi" in chat(tmp_path, PASSING_ON, (role, " Hi "))


@pytest.mark.parametrize("template", [PASSING_ON, NAMING])
@pytest.mark.parametrize("role", ["robot", "USER", "usr", "bot"])
def test_a_role_that_nobody_knows_is_refused_with_those_that_there_are(tmp_path, template, role):
    with pytest.raises(BadRequest) as refused:
        chat(tmp_path, template, ("user", "Hi"), (role, "Beep"))
    assert refused.value.code == "bad_role"
    assert str(refused.value) == (
        "messages[1].role must be one of system, user, assistant, tool, developer, function, or one that the "
        f"model's chat template names, got {role!r}; say who speaks in the text of a user's message"
    )


def test_a_role_that_the_template_names_is_one(tmp_path):
    assert chat(tmp_path, NAMING, ("user", "Hi"), ("narrator", "Night fell.")) == "U: Hi\nA: Night fell.\n"


@pytest.mark.parametrize(
    ("template", "content"), [(NAMING, "Be brief."), (IN_PARTS, [{"type": "text", "text": "Be brief."}])]
)
@pytest.mark.parametrize("role", ["system", "developer", "tool", "function"])
def test_a_message_that_the_template_would_leave_out_is_refused(tmp_path, template, content, role):
    with pytest.raises(BadRequest, match=rf"messages\[0\]: .* not know the role {role!r} and leaves out"):
        chat(tmp_path, template, (role, content), ("user", content))


def test_a_template_is_shown_with_any_role(tmp_path):
    with LLM(write_tiny_llm(tmp_path / "tiny.gguf", chat_template=PASSING_ON)) as llm:
        assert llm.chat_template.render([{"role": "robot", "content": "Beep"}]) == "[robot] Beep\n"


def test_the_command_line_says_when_a_system_message_would_be_left_out(tmp_path, capfd):
    from unspool.cli import main

    path = write_tiny_llm(tmp_path / "tiny.gguf", chat_template=NAMING)
    assert main(["run", "Hi", "--model", str(path), "--system", "Be brief."]) == 2
    assert (
        "does not know the role 'system' and leaves out what it says; say it as 'user'"
        in capfd.readouterr().err
    )


SHOUTING = "{% for m in messages %}[{{ m.role }}] {{ m.content | upper }}{% endfor %}"


def test_words_that_a_template_changes_are_not_left_out(tmp_path):
    assert chat(tmp_path, SHOUTING, ("system", "be brief"), ("user", "Hi")) == "[system] BE BRIEF[user] HI"


@pytest.mark.parametrize(
    ("template", "empty"), [(NAMING, ""), (NAMING, " "), (IN_PARTS, [{"type": "text", "text": ""}])]
)
def test_a_message_that_says_nothing_may_be_left_out(tmp_path, template, empty):
    hi = [{"type": "text", "text": "Hi"}] if template is IN_PARTS else "Hi"
    assert "Hi" in chat(tmp_path, template, ("system", empty), ("user", hi))
    with pytest.raises(BadRequest, match=r"messages\[1\]: "):
        chat(tmp_path, template, ("system", empty), ("system", hi), ("user", hi))


@pytest.mark.parametrize("is_known", [False, True])
def test_the_way_out_is_one_that_the_template_has(tmp_path, is_known):
    template = NAMING + ("{% if messages[0].role == 'system' %}{% endif %}" if is_known else "")
    with pytest.raises(BadRequest, match="leaves out what it says") as refused:
        chat(tmp_path, template, ("developer", "Be brief."), ("user", "Hi"))
    assert str(refused.value).endswith("say it as 'user'" + (", or as 'system'" if is_known else ""))


def test_a_template_is_asked_once_for_each_role():
    written = []

    def write(messages):
        written.append(messages)
        return repr(messages)

    roles = ("system", "tool", "user", "tool", "system", "tool")
    check_roles([{"role": role, "content": "Hi"} for role in roles], frozenset(), write)
    assert len(written) == 2 * 2, "two roles, two words"
