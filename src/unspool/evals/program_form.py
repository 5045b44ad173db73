"""How a model is asked to write a function whose head and docstring are given."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from unspool.errors import BadRequest, nearest
from unspool.light_dataclass import dataclass

if TYPE_CHECKING:
    from unspool.llm import LLM

FormName: TypeAlias = Literal["fill", "chat", "raw"]

_FILL: Final = "Finish this Python function. Answer with one block of code that runs as it stands.\n\n{}"
_CHAT: Final = "Write this Python function as a program that runs as it stands, in one block of code.\n\n{}"
_FENCE: Final = "```python\n"


@dataclass(frozen=True, slots=True)
class Form:
    """What stands before the answer, and where the answer ends."""

    name: FormName
    asks: str | None  # the user's message, with {} for the head in a block of code; None: no chat
    begins_with_head: bool  # whether the answer begins behind the head
    stop: tuple[str, ...]

    @property
    def continues_prompt(self) -> bool:
        """Whether the program is the head and the answer."""
        return self.asks is None or self.begins_with_head

    def prompt_ids(self, llm: LLM, head: str) -> tuple[int, ...]:
        if self.asks is None:
            return tuple(llm.tokenize(head))
        shown = head.lstrip("\n")
        begun = _FENCE + (shown if self.begins_with_head else "")
        messages = [
            {"role": "user", "content": self.asks.format(f"{_FENCE}{shown.rstrip()}\n```")},
            {"role": "assistant", "content": begun},
        ]
        return tuple(llm.chat_template.encode(messages, continue_final_message=True))


# Behind a function's body, at the margin, something else begins. In a chat the fence says where.
_MARGIN: Final = ("\ndef ", "\nclass ", "\nif ", "\nprint", "\n#", "\n@", "\nassert ", '\n"""', "\n```")
FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        form.name: form
        for form in (
            Form("fill", _FILL, True, ("\n```",)),
            Form("chat", _CHAT, False, ("\n```",)),
            Form("raw", None, True, _MARGIN),
        )
    }
)


def form_for(llm: LLM, name: str | None) -> Form:
    """A form by name; without one, `fill` for a model with a chat template and `raw` for others."""
    if name is None:
        return FORMS["fill" if llm.has_chat_template else "raw"]
    if name not in FORMS:
        raise BadRequest(f"there is no form {name!r}; {nearest(name, FORMS)}", code="bad_form")
    return FORMS[name]
