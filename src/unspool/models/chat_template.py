"""Messages to the text a model was trained on, by the Jinja template in its files.

Renders as transformers' `apply_chat_template(tokenize=False)` does, byte for byte; the tests hold recorded
values for eight families. A template writes BOS itself where its model wants one, so the text must become
ids by `encode` here, or by `Tokenizer.encode(text, parse_special=True)`; neither adds a second.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
from jinja2 import nodes

from unspool.errors import BadRequest, TemplateError
from unspool.models.chat_continuation import cut_at_mark, mark_end
from unspool.models.chat_limits import TemplateLimitError
from unspool.models.chat_marks import ControlMarks
from unspool.models.chat_messages import (
    check_dicts,
    check_messages,
    join_parts,
    map_text,
    plain_json,
)
from unspool.models.chat_roles import check_roles, named_in
from unspool.models.chat_sandbox import TemplateRefusedError, compile_template, run_template
from unspool.models.chat_sources import template_sources
from unspool.models.chat_spans import marked_words, positions_outside, spans_in_order, words_of
from unspool.models.tokenizer import Tokenizer
from unspool.models.weights.base import WeightSource

NO_TEMPLATE = "no_chat_template"  # the code of the TemplateError for a model that has none

_WAY_OUT = "use raw text (--raw, or generate instead of chat), or pass a template"


class _How(NamedTuple):
    """How to write a conversation: see `ChatTemplate.render`."""

    add_generation_prompt: bool | None
    continue_final_message: bool | str
    variant: str | None


class _Compiled(NamedTuple):
    template: jinja2.Template
    reads_parts: bool  # whether it knows content in parts
    named: frozenset[str]  # see `chat_roles`


class ChatTemplate:
    """The named templates of one model. Immutable and safe to share between threads.

    With several, "tool_use" is taken when tools are given and "default" otherwise, unless `variant` says.
    """

    def __init__(self, name: str, sources: Mapping[str, str], tokenizer: Tokenizer) -> None:
        """`name` is the file for messages; `sources` maps template names to Jinja text."""
        self.name = name
        self.sources = dict(sources)
        self._tokenizer = tokenizer
        self._compiled: dict[str, _Compiled] = {}
        if "default" in self.sources:  # a broken one is found when the model is opened
            self._template("default")

    @classmethod
    def from_source(cls, source: WeightSource, tokenizer: Tokenizer) -> ChatTemplate:
        """The templates of an open model. TemplateError when it has none, as base models do not."""
        sources = template_sources(source)
        if not sources:
            raise TemplateError(
                f"{source.path}: has no chat template, it is a base model; {_WAY_OUT}", code=NO_TEMPLATE
            )
        return cls(str(source.path), sources, tokenizer)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | str = False,
        documents: Sequence[Mapping[str, Any]] | None = None,
        variant: str | None = None,
        **template_variables: Any,
    ) -> str:
        """The text of a conversation, ready for the model to go on.

        `add_generation_prompt` opens the assistant's turn; None means yes unless `continue_final_message`.
        `continue_final_message` leaves the last message open, so that the model continues it: true for its
        content, or the name of another field, such as "reasoning_content". Other keywords go to the
        template as variables (`enable_thinking=False`). BadRequest for malformed arguments, TemplateError
        when the template refuses them or fails.
        """
        given = self._given(messages, tools, documents, template_variables)
        return self._write(given, _How(add_generation_prompt, continue_final_message, variant))

    def encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | str = False,
        documents: Sequence[Mapping[str, Any]] | None = None,
        variant: str | None = None,
        parse_special: bool = False,
        **template_variables: Any,
    ) -> list[int]:
        """Token ids of what `render` writes, with exactly the BOS the model wants.

        Only the control tokens that the template writes are control tokens. Those spelled out in messages,
        tools, documents and variables are plain text, unless `parse_special`: no user can end a turn or speak
        for another by typing "<|im_end|>". Roles that the template does not know are refused (`chat_roles`).
        """
        given = self._given(messages, tools, documents, template_variables)
        how = _How(add_generation_prompt, continue_final_message, variant)
        return self._checked(given, how, parse_special)[0]

    def encode_with_positions(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | str = False,
        documents: Sequence[Mapping[str, Any]] | None = None,
        variant: str | None = None,
        parse_special: bool = False,
        **template_variables: Any,
    ) -> tuple[list[int], frozenset[int]]:
        """What `encode` gives, and the positions of the ids that are not the words of a message: the
        template's own text, descriptions of tools, and tokens that are partly one of these.
        """
        given = self._given(messages, tools, documents, template_variables)
        how = _How(add_generation_prompt, continue_final_message, variant)
        ids, text = self._checked(given, how, parse_special)
        return ids, positions_outside(ids, text, self._word_spans(given, how, text), self._tokenizer)

    def _checked(self, given: Mapping[str, Any], how: _How, parse_special: bool) -> tuple[list[int], str]:
        """What `_encode` gives. Raises BadRequest for roles that nobody knows."""
        encoded = self._encode(given, how, parse_special)
        named = self._template(self._choose(how.variant, given["tools"])).named
        to_end = _How(add_generation_prompt=False, continue_final_message=False, variant=how.variant)
        check_roles(given["messages"], named, lambda words: self._write({**given, "messages": words}, to_end))
        return encoded

    def _encode(self, given: Mapping[str, Any], how: _How, parse_special: bool) -> tuple[list[int], str]:
        """The ids, and the text that they are of."""

        def spans_of(text: str) -> Iterator[tuple[int, int]]:
            return ((at, at + len(piece.text)) for at, piece in self._tokenizer.control_finder.find(text))

        marks = None if parse_special else ControlMarks.around(given, lambda text: any(spans_of(text)))
        if marks is None:
            text = self._write(given, how)
            return self._tokenizer.encode(text, parse_special=True), text
        marked = map_text(given, lambda text: marks.mark(text, spans_of(text)))
        text, spans = marks.unwrap(self._write(marked, how))
        return self._tokenizer.encode(text, parse_special=True, literal_spans=spans), text

    def _word_spans(self, given: Mapping[str, Any], how: _How, text: str) -> list[tuple[int, int]]:
        """Where the messages' words stand in the text that the template makes of them."""
        marks = ControlMarks.around(given, lambda _: True)
        assert marks is not None, "a message has a role"
        for with_blanks in (True, False):
            words = marked_words(given["messages"], marks, with_blanks=with_blanks)
            try:
                unmarked, spans = marks.unwrap(self._write({**given, "messages": words}, how))
            except TemplateError:
                continue
            if unmarked == text:
                return spans
        # The template looks at how a content begins or ends, and was misled by the marks.
        return spans_in_order(text, words_of(given["messages"]))

    def _given(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        documents: Sequence[Mapping[str, Any]] | None,
        template_variables: Mapping[str, Any],
    ) -> dict[str, Any]:
        """What the caller gave, checked and plain, by the names templates know."""
        return {
            **plain_json(template_variables, "template_variables"),
            "messages": check_messages(messages),
            "tools": check_dicts(tools, "tools"),
            "documents": check_dicts(documents, "documents"),
        }

    def _write(self, given: Mapping[str, Any], how: _How) -> str:
        opens_turn, continued = how.add_generation_prompt, how.continue_final_message
        if opens_turn is None:
            opens_turn = not continued
        elif opens_turn and continued:
            raise BadRequest(
                "add_generation_prompt opens a new message and continue_final_message continues the last "
                "one; give one of them"
            )
        variant = self._choose(how.variant, given["tools"])
        template, reads_parts, _ = self._template(variant)
        chat = given["messages"] if reads_parts else join_parts(given["messages"])
        variables = {**self._tokenizer.special_tokens, **given, "add_generation_prompt": opens_turn}
        if not continued:
            return self._run(template, variables | {"messages": chat})
        chat = [*chat[:-1], copy.deepcopy(chat[-1])]  # what was given may be written again
        field = continued if isinstance(continued, str) else "content"
        text = mark_end(chat[-1], field, self.sources[variant])
        return cut_at_mark(self._run(template, variables | {"messages": chat}), text)

    def _template(self, variant: str) -> _Compiled:
        compiled = self._compiled.get(variant)
        if compiled is None:
            compiled = self._compiled[variant] = self._compile(self.sources[variant])
        return compiled

    def _choose(self, variant: str | None, tools: object) -> str:
        if variant is None:
            variant = "tool_use" if tools and "tool_use" in self.sources else "default"
        if variant not in self.sources:
            known = ", ".join(sorted(self.sources))
            raise TemplateError(f"{self.name}: has no chat template named {variant!r}; known: {known}")
        return variant

    def _compile(self, source: str) -> _Compiled:
        try:
            template = compile_template(source)
            tree = template.environment.parse(source)
            return _Compiled(template, _reads_parts(tree), named_in(tree))
        except jinja2.TemplateSyntaxError as problem:
            raise self._error(f"does not parse: line {problem.lineno}: {problem.message}") from None
        except Exception as problem:
            raise self._error(f"does not compile: {_described(problem)}") from None

    def _run(self, template: jinja2.Template, variables: Mapping[str, Any]) -> str:
        try:
            return run_template(template, variables)
        except TemplateRefusedError as problem:
            raise self._error(f"refuses these messages: {problem}") from None
        except jinja2.UndefinedError as problem:
            raise self._error(f"needs what these messages lack: {problem}") from None
        except Exception as problem:
            raise self._error(f"fails: {_described(problem)}") from None

    def _error(self, problem: str) -> TemplateError:
        line = " ".join(problem.split())
        return TemplateError(f"{self.name}: chat template {line[:400]}")


def _described(problem: Exception) -> str:
    if isinstance(problem, TemplateLimitError):
        return str(problem)
    return f"{type(problem).__name__}: {problem}"


def _reads_parts(tree: nodes.Template) -> bool:
    """Whether the template walks over a content: `for part in message['content']`, or a name for it."""

    def names(node: nodes.Node) -> Iterator[str]:
        for inner in (node, *node.find_all((nodes.Name, nodes.Getattr, nodes.Getitem))):
            if isinstance(inner, nodes.Name):
                yield inner.name
            elif isinstance(inner, nodes.Getattr):
                yield inner.attr
            elif isinstance(inner, nodes.Getitem) and isinstance(inner.arg, nodes.Const):
                yield str(inner.arg.value)

    return any("content" in name for loop in tree.find_all(nodes.For) for name in names(loop.iter))
