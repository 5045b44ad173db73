"""Where a model's files keep their chat templates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.errors import ModelFileError
from unspool.models.weights.base import WeightSource
from unspool.models.weights.json_file import checked_text, read_optional_json_object

_GGUF_KEY = "tokenizer.chat_template"


def template_sources(source: WeightSource) -> dict[str, str]:
    """Jinja texts by name ("default", "tool_use", ...); empty for a model without any."""
    if source.format == "gguf":
        return _gguf_sources(source.path, source.metadata)
    return _folder_sources(source.path)


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
    value = read_optional_json_object(file).get("chat_template")
    sources: dict[str, str] = {}
    if isinstance(value, str):
        sources["default"] = checked_text(file, "chat_template", value)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            named = isinstance(entry, dict) and all(
                isinstance(entry.get(k), str) for k in ("name", "template")
            )
            if not named:
                raise ModelFileError(file, f"chat_template[{index}]", "is not a name and a template")
            name, template = (
                checked_text(file, f"chat_template[{index}]", entry[k]) for k in ("name", "template")
            )
            sources[name] = template
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
