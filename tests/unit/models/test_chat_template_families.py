"""Rendered text, byte for byte as transformers renders it (tests/oracle/record_chat_templates.py)."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.errors import UnspoolError
from unspool.models import chat_sandbox
from unspool.models.chat_template import ChatTemplate
from unspool.models.tokenizer import load_tokenizer
from unspool.models.weights.gguf import GgufSource

FOLDER = Path(__file__).parents[2] / "data" / "chat_templates"
RECORDED: dict[str, Any] = json.loads((FOLDER / "recorded.json").read_text())
OURS = [name for name, family in RECORDED["families"].items() if "gguf" not in family]
CATALOGUE = [name for name, family in RECORDED["families"].items() if "gguf" in family]
READ_PARTS = {"gemma", "qwen3"}  # the others know text alone, and fail or print a Python list in transformers


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return datetime.datetime(2026, 3, 14, 15, 9, 26)


@pytest.fixture(autouse=True)
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_sandbox, "datetime", Clock)


class SpecialTokens:
    special_tokens = RECORDED["special_tokens"]


def check(template: ChatTemplate, family: str, case: dict[str, Any]) -> None:
    options = dict(RECORDED["conversations"][case["name"]])
    options |= options.pop("variables", {})
    messages = options.pop("messages")
    if "parts" in case["name"] and family not in READ_PARTS:
        texts = [
            m | {"content": "\n".join(p["text"] for p in m["content"])}
            if isinstance(m["content"], list)
            else m
            for m in messages
        ]
        assert template.render(messages, **options) == template.render(texts, **options)
    elif "text" in case:
        assert template.render(messages, **options) == case["text"]
    else:
        with pytest.raises(UnspoolError):
            template.render(messages, **options)


def case_id(pair: Any) -> str:
    return str(pair["name"]) if isinstance(pair, dict) else str(pair)


def pairs(families: list[str]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, case) for name in families for case in RECORDED["families"][name]["cases"]]


@pytest.mark.parametrize(("family", "case"), pairs(OURS), ids=case_id)
def test_renders_as_transformers_does(family: str, case: dict[str, Any]) -> None:
    source = (FOLDER / f"{family}.jinja").read_text(encoding="utf-8")
    check(ChatTemplate(family, {"default": source}, SpecialTokens()), family, case)  # type: ignore[arg-type]


@pytest.mark.model
@pytest.mark.parametrize("family", CATALOGUE)
def test_renders_the_catalogue_as_transformers_does(family: str, model_path: Callable[[str], Path]) -> None:
    with GgufSource(model_path(family)) as source:
        tokenizer = load_tokenizer(source)
        template = ChatTemplate.from_source(source, tokenizer)
    for case in RECORDED["families"][family]["cases"]:
        check(template, family, case)


def test_there_are_eight_families_and_few_refusals() -> None:
    assert len(OURS) + len(CATALOGUE) >= 8
    cases = pairs(OURS + CATALOGUE)
    assert sum("text" in case for _, case in cases) > 0.8 * len(cases)
