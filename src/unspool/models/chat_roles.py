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
_WORDS: Final = "words that no message has said"
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
    """Raise BadRequest for a role that neither chats nor this template have, and for a message that the
    template leaves out because it does not know its role. `write` is the template."""
    for index, message in enumerate(messages):
        role = message["role"]
        if role in named or role in _TALKING:
            continue
        if role not in ROLES:
            raise BadRequest(
                f"messages[{index}].role must be one of {', '.join(ROLES)}, or one that the model's chat "
                f"template names, got {brief(role)}; say who speaks in the text of a user's message",
                code="bad_role",
            )
        if _leaves_out(messages, index, write):
            raise BadRequest(
                f"messages[{index}]: the model's chat template does not know the role {role!r} and leaves "
                "out what it says; say it as 'user'" + ("" if role == "system" else ", or as 'system'"),
                code="bad_role",
            )


def _leaves_out(
    messages: Sequence[Mapping[str, Any]], index: int, write: Callable[[list[Mapping[str, Any]]], str]
) -> bool:
    """Whether other words in this message would change nothing."""
    content: Any = [{"type": "text", "text": _WORDS}] if _has_parts(messages[index]) else _WORDS
    probed = [*messages[:index], {**messages[index], "content": content}, *messages[index + 1 :]]
    try:
        return _WORDS not in write(probed)
    except TemplateError:
        return False  # it minds what the message says


def _has_parts(message: Mapping[str, Any]) -> bool:
    return isinstance(message.get("content"), list)
