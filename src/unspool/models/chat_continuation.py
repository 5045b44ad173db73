"""The last message of a conversation left open, so that the model continues it.

A tag behind the text that is to be continued says where the rendered text has to end.
"""

from __future__ import annotations

from typing import Any, Final

from unspool.errors import BadRequest, TemplateError
from unspool.models.chat_messages import REASONING_FIELDS

_TAG: Final = "CONTINUE_FINAL_MESSAGE_TAG "  # transformers' own, so that a template sees the same text


def mark_end(message: dict[str, Any], field: str, source: str) -> str:
    """Put the tag behind the text to be continued; return that text."""
    text = message.get(field)
    copies = [field]
    if field in REASONING_FIELDS:
        copies = [name for name in REASONING_FIELDS if message.get(name) == text]
    if text is None:
        raise BadRequest(f"continue_final_message: the last message has no {field!r} to continue")
    if not any(name in source for name in copies):
        raise BadRequest(f"continue_final_message: the chat template does not write {field!r}")
    if isinstance(text, str):
        for name in copies:
            message[name] = text + _TAG
        return text
    if (
        isinstance(text, list)
        and text
        and isinstance(last := text[-1], dict)
        and isinstance(last.get("text"), str)
    ):
        original: str = last["text"]
        last["text"] = original + _TAG
        return original
    raise BadRequest(
        f"continue_final_message: {field!r} of the last message is not text that can be continued"
    )


def cut_at_mark(rendered: str, text: str) -> str:
    """Everything before the tag; blanks that the template trimmed from the text stay trimmed."""
    tag = _TAG.strip()
    if text.strip() not in rendered or tag not in rendered:
        raise TemplateError(
            "continue_final_message: the chat template does not write the last message as it is, so it "
            "cannot be continued; start a new message instead"
        )
    at = rendered.rindex(tag)
    return rendered[:at] if rendered[at:].startswith(_TAG) else rendered[:at].rstrip()
