"""Record what transformers renders for our template texts and conversations.

    python tests/oracle/record_chat_templates.py MODELS_DIR tests/data/chat_templates    # oracle environment

The templates are ours, written to each family's documented format with the constructs such templates use, so
what is compared is the renderers. Two more come from the catalogue's GGUF files and are not kept here: their
cases name the file instead. Clocks stand still at `NOW`.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

NOW = datetime.datetime(2026, 3, 14, 15, 9, 26)
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": 'Weather in a city: "now" & <later> – ça va',
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "enum": ["Zürich", "東京"]},
                "days": {"type": "integer"},
            },
            "required": ["city"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {}, "description": "Time"}}


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "call00001", "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "You are terse.\nAnswer in one line."}
USER = {"role": "user", "content": "  What is <b>2 + 2</b>? É 漢字 😀 \n"}
ANSWER = {"role": "assistant", "content": '  It\'s 4 & that is "all". '}
AGAIN = {"role": "user", "content": "Sure?"}
THOUGHT = {"role": "assistant", "content": "<think>\nTwo and two.\n</think>\n\nFour."}
REASONED = {"role": "assistant", "content": "Four.", "reasoning_content": "\nTwo and two.\n"}
ASKED = {"role": "assistant", "content": "", "tool_calls": [call("weather", {"city": "Zürich", "days": 2})]}
TOLD = {"role": "tool", "content": '{"sun": true}', "tool_call_id": "call00001"}
PREFILL = {"role": "assistant", "content": "The answer is "}
DOCUMENTS = [
    {"title": "A <title>", "text": "One\ntwo " + "long " * 30, "year": 1999},
    {"text": "Zwei", "title": "B", "source": None},
]

CONVERSATIONS: dict[str, dict[str, Any]] = {
    "one question": {"messages": [USER]},
    "with a system text": {"messages": [SYSTEM, USER]},
    "several turns": {"messages": [SYSTEM, USER, ANSWER, AGAIN]},
    "no generation prompt": {"messages": [USER, ANSWER], "add_generation_prompt": False},
    "continued": {"messages": [SYSTEM, USER, PREFILL], "continue_final_message": True},
    "continued after several turns": {
        "messages": [USER, ANSWER, AGAIN, PREFILL],
        "continue_final_message": True,
    },
    "tools offered": {"messages": [SYSTEM, USER], "tools": [WEATHER, CLOCK]},
    "tools called": {"messages": [USER, ASKED, TOLD], "tools": [WEATHER]},
    "tools answered": {"messages": [USER, ASKED, TOLD, ANSWER, AGAIN], "tools": [WEATHER, CLOCK]},
    "null content": {
        "messages": [USER, {"role": "assistant", "content": None, "tool_calls": ASKED["tool_calls"]}, TOLD]
    },
    "thought in the text": {"messages": [USER, THOUGHT, AGAIN]},
    "thought at the end": {"messages": [USER, THOUGHT], "add_generation_prompt": False},
    "reasoned": {"messages": [USER, REASONED, AGAIN, REASONED], "add_generation_prompt": False},
    "reasoning continued": {
        "messages": [USER, REASONED],
        "continue_final_message": "reasoning_content",
    },
    "thinking off": {"messages": [USER], "variables": {"enable_thinking": False}},
    "another date": {"messages": [USER], "variables": {"date_string": "01 Jan 2000"}},
    "own special tokens": {"messages": [USER, ANSWER], "variables": {"bos_token": "[B]", "eos_token": ""}},
    "text in parts": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": " one "}, {"type": "text", "text": "two"}]}
        ]
    },
    "parts continued": {
        "messages": [USER, {"role": "assistant", "content": [{"type": "text", "text": "Well, "}]}],
        "continue_final_message": True,
    },
    "documents": {"messages": [USER, ANSWER, AGAIN], "documents": DOCUMENTS},
    "wrong order": {"messages": [ANSWER, USER, USER]},
    "unknown role": {"messages": [{"role": "wizard", "content": "Abracadabra"}]},
    "system in the middle": {"messages": [USER, SYSTEM, AGAIN]},
}


def record_family(tokenizer: Any, template: str) -> list[dict[str, Any]]:
    cases = []
    for name, conversation in CONVERSATIONS.items():
        options = {key: value for key, value in conversation.items() if key not in ("messages", "variables")}
        if "continue_final_message" not in options:
            options.setdefault("add_generation_prompt", True)
        try:
            text = tokenizer.apply_chat_template(
                conversation["messages"],
                chat_template=template,
                tokenize=False,
                **options,
                **conversation.get("variables", {}),
            )
        except Exception as problem:
            cases.append({"name": name, "error": f"{type(problem).__name__}: {str(problem)[:80]}"})
        else:
            cases.append({"name": name, "text": text})
    return cases


def main() -> None:
    import transformers.utils.chat_template_utils as renderer
    from tokenizers import Tokenizer, models
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime.datetime:
            return NOW

    renderer.datetime = Clock
    models_dir, folder = map(Path, sys.argv[1:])
    plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **SPECIAL_TOKENS)
    families: dict[str, Any] = {}
    for file in sorted(folder.glob("*.jinja")):
        families[file.stem] = {"cases": record_family(plain, file.read_text(encoding="utf-8"))}
    for name in ("smollm2-135m", "qwen2.5-coder-1.5b"):
        tokenizer: Any = AutoTokenizer.from_pretrained(str(models_dir), gguf_file=f"{name}.gguf")
        families[name] = {"gguf": name, "cases": record_family(tokenizer, tokenizer.chat_template)}
    record = {"special_tokens": SPECIAL_TOKENS, "conversations": CONVERSATIONS, "families": families}
    (folder / "recorded.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
