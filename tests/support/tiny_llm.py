"""A whole tiny model on disk: random weights, a byte tokenizer, a chat template."""

from __future__ import annotations

from pathlib import Path

from tiny_models import TinySpec, byte_tokenizer_metadata, tiny_source, write_gguf

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role[0] }}:{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)
END_ID = 256


def write_tiny_llm(
    path: Path, *, chat_template: str | None = CHAT_TEMPLATE, context_length: int = 128, **spec
) -> Path:
    """Random weights and the tokenizer of `byte_tokenizer_metadata`."""
    tokenizer = byte_tokenizer_metadata()
    if chat_template is not None:
        tokenizer["tokenizer.chat_template"] = chat_template
    return write_gguf(
        path,
        tiny_source(TinySpec(**{"vocab_size": 258, "context_length": context_length, **spec})),
        extra=tokenizer,
    )
