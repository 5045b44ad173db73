"""Record reference token ids of the corpus for the catalogue models.

Two references read the same GGUF file: transformers (`AutoTokenizer.from_pretrained(..., gguf_file=...)`)
and llama.cpp (through llama-cpp-python). They live in environments of their own, so it takes three steps:

    python tests/oracle/record_tokenizer.py transformers MODELS_DIR > hf.json     # oracle environment
    python tests/oracle/record_tokenizer.py llama.cpp MODELS_DIR > lc.json        # peers environment
    python tests/oracle/record_tokenizer.py merge hf.json lc.json tests/data      # either

Each recorded case holds the text, the ids with control tokens read as plain text, and the ids with control
tokens parsed. Where the references differ, `merge` keeps the right one and says why; a difference that
no rule of `DECISIONS` explains stops it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from tokenizer_corpus import CORPUS

MODELS = ("smollm2-135m", "gemma3-270m", "qwen2.5-coder-1.5b")
Encode = Callable[[str, bool], list[int]]  # (text, parse_special) -> ids without BOS


@dataclass(frozen=True)
class Decision:
    """Which reference is right for one model where the text holds `trait`, and why."""

    model: str
    trait: str  # a regular expression
    right: str
    why: str


DECISIONS = (
    Decision(
        "smollm2-135m",
        r"\d|[²½⅔Ⅷ①]",
        "llama.cpp",
        "the model's tokenizer.json cuts every numeric character off (Digits, individual); "
        "transformers does not know the kind 'smollm' when it reads GGUF and leaves that cut out",
    ),
    Decision(
        "gemma3-270m",
        r" {32,}",
        "llama.cpp",
        "SentencePiece takes user-defined runs of spaces greedily, 31 first; "
        "transformers merges pairs of spaces, which differs for more than 31",
    ),
    Decision(
        "gemma3-270m",
        "\u2581",
        "transformers",
        "SentencePiece looks for runs of spaces after spaces became marks, so literal marks count as spaces; "
        "llama.cpp looks before",
    ),
    Decision(
        "gemma3-270m",
        r"</s>",
        "transformers",
        "</s> is the user-defined HTML tag in this vocabulary; llama.cpp takes it for an end token by name",
    ),
    Decision(
        "qwen2.5-coder-1.5b",
        r"</s>",
        "transformers",
        "</s> is an ordinary piece of this vocabulary; llama.cpp takes it for an end token by name",
    ),
)


def transformers_encode(path: Path) -> Encode:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)

    def encode(text: str, parse_special: bool) -> list[int]:
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=not parse_special)["input_ids"]
        return [int(i) for i in ids]

    return encode


def llama_cpp_encode(path: Path) -> Encode:
    import llama_cpp

    model: Any = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)

    def encode(text: str, parse_special: bool) -> list[int]:
        return [int(i) for i in model.tokenize(text.encode(), add_bos=False, special=parse_special)]

    return encode


def record(make: Callable[[Path], Encode], folder: Path) -> dict[str, list[list[list[int]]]]:
    result = {}
    for name in MODELS:
        encode = make(folder / f"{name}.gguf")
        result[name] = [[encode(text, False), encode(text, True)] for text in CORPUS]
    return result


def merge(transformers: Any, llama_cpp: Any, folder: Path) -> None:
    for name in MODELS:
        cases = []
        for text, hf, lc in zip(CORPUS, transformers[name], llama_cpp[name], strict=True):
            case: dict[str, Any] = {"text": text, "plain": hf[0], "parsed": hf[1]}
            if hf != lc:
                decision = next(d for d in DECISIONS if d.model == name and re.search(d.trait, text))
                right = hf if decision.right == "transformers" else lc
                case |= {"plain": right[0], "parsed": right[1], "right": decision.right, "why": decision.why}
            cases.append(case)
        lines = ",\n".join(json.dumps(case) for case in cases)
        (folder / f"tokenizer_{name}.json").write_text(f"[\n{lines}\n]\n")


def main() -> None:
    command, *arguments = sys.argv[1:]
    if command == "transformers":
        json.dump(record(transformers_encode, Path(arguments[0])), sys.stdout)
    elif command == "llama.cpp":
        json.dump(record(llama_cpp_encode, Path(arguments[0])), sys.stdout)
    elif command == "merge":
        hf, lc, folder = map(Path, arguments)
        merge(json.loads(hf.read_text()), json.loads(lc.read_text()), folder)
    else:
        sys.exit(f"unknown command {command!r}; one of: transformers, llama.cpp, merge")


if __name__ == "__main__":
    main()
