"""Roles of messages: which of them a chat template knows, and what is said of the others.

A template takes any role. Some write it out, so that the model reads a word it has never met there; others
leave the message out and say nothing. Neither is what was asked for, so both are refused before the model
reads them. `render` shows what the template makes of them all the same, as transformers does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jinja2 import nodes

from unspool.errors import BadRequest, TemplateError, brief

ROLES: Final = ("system", "user", "assistant", "tool", "developer", "function")  # of the chat APIs there are
_WORDS: Final = ("one thing", "quite another")  # what is said or not, whatever a template does to words
_TALKING: Final = ("user", "assistant")  # every template has a place for these


def named_in(tree: nodes.Template) -> frozenset[str]:
    """Every text that a template compares with, looks up or writes; the roles it knows are among them."""
    return frozenset(
        constant.value for constant in tree.find_all(nodes.Const) if isinstance(constant.value, str)
    )


def check_roles(
    messages: Sequence[Mapping[str, Any]],
    named: frozenset[str],
    write: Callable[[list[Mapping[str, Any]]], str],
) -> None:
    """Raise BadRequest for a role that neither chats nor this template have, and for messages that the
    template leaves out because it does not know their role. `write` is the template."""
    heard: set[str] = set()
    for index, message in enumerate(messages):
        role = message["role"]
        if role in named or role in _TALKING or role in heard:
            continue
        if role not in ROLES:
            raise BadRequest(
                f"messages[{index}].role must be one of {', '.join(ROLES)}, or one that the model's chat "
                f"template names, got {brief(role)}; say who speaks in the text of a user's message",
                code="bad_role",
            )
        if not _says_something(message):
            continue
        if _leaves_out(role, messages, write):
            raise BadRequest(
                f"messages[{index}]: the model's chat template does not know the role {role!r} and leaves "
                "out what it says; say it as 'user'" + (", or as 'system'" if "system" in named else ""),
                code="bad_role",
            )
        heard.add(role)


def _leaves_out(
    role: str, messages: Sequence[Mapping[str, Any]], write: Callable[[list[Mapping[str, Any]]], str]
) -> bool:
    """Whether other words in the messages of this role would change nothing."""

    def saying(words: str) -> list[Mapping[str, Any]]:
        return [
            {**each, "content": _in_form_of(each["content"], words)}
            if each["role"] == role and _says_something(each)
            else each
            for each in messages
        ]

    try:
        one, another = (write(saying(words)) for words in _WORDS)
    except TemplateError:
        return False  # it minds what the message says
    return one == another


def _in_form_of(content: Any, words: str) -> Any:
    return [{"type": "text", "text": words}] if isinstance(content, list) else words


def _says_something(message: Mapping[str, Any]) -> bool:
    content = message.get("content", "")
    parts = [part["text"] for part in content] if isinstance(content, list) else [content]
    return any(part.strip() for part in parts)
