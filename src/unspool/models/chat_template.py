"""Messages to the text a model was trained on, by the Jinja template in its files.

Renders as transformers' `apply_chat_template(tokenize=False)` does, byte for byte; the tests hold recorded
values for eight families. A template writes BOS itself where its model wants one, so the text must become
ids by `encode` here, or by `Tokenizer.encode(text, parse_special=True)`; neither adds a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes

from unspool.errors import BadRequest, ModelFileError, TemplateError
from unspool.models.chat_limits import TemplateLimitError
from unspool.models.chat_messages import (
    REASONING_FIELDS,
    check_dicts,
    check_messages,
    join_parts,
    plain_json,
)
from unspool.models.chat_sandbox import TemplateRefusedError, compile_template, run_template
from unspool.models.tokenizer import Tokenizer
from unspool.models.tokenizer.safetensors import read_json_object
from unspool.models.weights.base import WeightSource

_GGUF_KEY = "tokenizer.chat_template"
_TAG = "CONTINUE_FINAL_MESSAGE_TAG "  # transformers' own, so that a template sees the same text
_WAY_OUT = "use raw text (--raw, or generate instead of chat), or pass a template"


class ChatTemplate:
    """The named templates of one model. Immutable and safe to share between threads.

    With several, "tool_use" is taken when tools are given and "default" otherwise, unless `variant` says.
    """

    def __init__(self, name: str, sources: Mapping[str, str], tokenizer: Tokenizer) -> None:
        """`name` is the file for messages; `sources` maps template names to Jinja text."""
        self.name = name
        self.sources = dict(sources)
        self._tokenizer = tokenizer
        self._compiled = {variant: self._compile(source) for variant, source in self.sources.items()}

    @classmethod
    def from_source(cls, source: WeightSource, tokenizer: Tokenizer) -> ChatTemplate:
        """The templates of an open model. TemplateError when it has none, as base models do not."""
        if source.format == "gguf":
            sources = _gguf_sources(source.path, source.metadata)
        else:
            sources = _folder_sources(source.path if source.path.is_dir() else source.path.parent)
        if not sources:
            raise TemplateError(f"{source.path}: has no chat template, it is a base model; {_WAY_OUT}")
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
        if add_generation_prompt is None:
            add_generation_prompt = not continue_final_message
        elif add_generation_prompt and continue_final_message:
            raise BadRequest(
                "add_generation_prompt opens a new message and continue_final_message continues the last "
                "one; give one of them"
            )
        chat = check_messages(messages)
        tools, documents = check_dicts(tools, "tools"), check_dicts(documents, "documents")
        variant = self._choose(variant, tools)
        template, reads_parts = self._compiled[variant]
        if not reads_parts:
            chat = join_parts(chat)
        variables = {
            **self._tokenizer.special_tokens,
            **plain_json(template_variables, "template_variables"),
            "tools": tools,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
        }
        if not continue_final_message:
            return self._run(template, variables | {"messages": chat})
        field = continue_final_message if isinstance(continue_final_message, str) else "content"
        text = _mark_end(chat[-1], field, self.sources[variant])
        return _cut_at_mark(self._run(template, variables | {"messages": chat}), text)

    def _choose(self, variant: str | None, tools: object) -> str:
        if variant is None:
            variant = "tool_use" if tools and "tool_use" in self.sources else "default"
        if variant not in self.sources:
            known = ", ".join(sorted(self.sources))
            raise TemplateError(f"{self.name}: has no chat template named {variant!r}; known: {known}")
        return variant

    def _compile(self, source: str) -> tuple[jinja2.Template, bool]:
        """The template, and whether it knows content in parts."""
        try:
            template = compile_template(source)
            return template, _reads_parts(template.environment.parse(source))
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


def _gguf_sources(path: Path, metadata: Mapping[str, Any]) -> dict[str, str]:
    sources = {}
    for key, value in metadata.items():
        if key == _GGUF_KEY:
            name = "default"
        elif key.startswith(f"{_GGUF_KEY}."):
            name = key.removeprefix(f"{_GGUF_KEY}.")
        else:
            continue
        if not isinstance(value, str):
            raise ModelFileError(path, key, f"is a {type(value).__name__}, expected a string")
        sources[name] = value
    return sources


def _folder_sources(folder: Path) -> dict[str, str]:
    """chat_template.jinja, additional_chat_templates/NAME.jinja, or the older tokenizer_config.json."""
    file = folder / "tokenizer_config.json"
    value = read_json_object(file).get("chat_template")
    sources: dict[str, str] = {}
    if isinstance(value, str):
        sources["default"] = value
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            named = isinstance(entry, dict) and all(
                isinstance(entry.get(k), str) for k in ("name", "template")
            )
            if not named:
                raise ModelFileError(file, f"chat_template[{index}]", "is not a name and a template")
            sources[entry["name"]] = entry["template"]
    elif value is not None:
        raise ModelFileError(
            file, "chat_template", f"is a {type(value).__name__}, expected a string or a list"
        )
    for template_file in (
        *sorted(folder.glob("additional_chat_templates/*.jinja")),
        folder / "chat_template.jinja",
    ):
        if template_file.is_file():
            name = "default" if template_file.parent == folder else template_file.stem
            try:
                sources[name] = template_file.read_text(encoding="utf-8")
            except UnicodeDecodeError as problem:
                raise ModelFileError(template_file, "file", f"is not UTF-8 at byte {problem.start}") from None
    return sources


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


def _mark_end(message: dict[str, Any], field: str, source: str) -> str:
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


def _cut_at_mark(rendered: str, text: str) -> str:
    """Everything before the tag; blanks that the template trimmed from the text stay trimmed."""
    tag = _TAG.strip()
    if text.strip() not in rendered or tag not in rendered:
        raise TemplateError(
            "continue_final_message: the chat template does not write the last message as it is, so it "
            "cannot be continued; start a new message instead"
        )
    at = rendered.rindex(tag)
    return rendered[:at] if rendered[at:].startswith(_TAG) else rendered[:at].rstrip()
