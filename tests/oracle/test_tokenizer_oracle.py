"""Tokenizers and templates against transformers itself, on the catalogue and on folders it saved."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.models.chat_template import ChatTemplate
from unspool.models.tokenizer import Tokenizer, load_tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from record_chat_templates import CONVERSATIONS, record_family
from tokenizer_corpus import CORPUS

transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.oracle, pytest.mark.model]
MODELS = ("smollm2-135m", "gemma3-270m", "qwen2.5-coder-1.5b")


class Folder:
    format = "safetensors"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}


@pytest.fixture(scope="module", params=MODELS)
def pair(
    request: pytest.FixtureRequest,
    model_path: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Any, Tokenizer, Path]:
    """A tokenizer of transformers, and ours from the folder it saved."""
    path = model_path(request.param)
    theirs = transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    folder = tmp_path_factory.mktemp(request.param)
    theirs.save_pretrained(folder)
    return theirs, load_tokenizer(Folder(folder)), folder  # type: ignore[arg-type]


def test_a_saved_tokenizer_gives_the_same_ids(pair: tuple[Any, Tokenizer, Path]) -> None:
    theirs, ours, _ = pair
    for text in CORPUS:
        plain = theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        parsed = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(text, add_bos=False) == plain, text
        assert ours.encode(text, add_bos=False, parse_special=True) == parsed, text
        assert ours.encode(text) == theirs(text, split_special_tokens=True)["input_ids"], text
        assert ours.decode(plain) == theirs.decode(plain), text


def test_a_saved_template_renders_the_same(pair: tuple[Any, Tokenizer, Path]) -> None:
    theirs, ours, folder = pair
    if theirs.chat_template is None:
        pytest.skip("a base model")
    template = ChatTemplate.from_source(Folder(folder), ours)  # type: ignore[arg-type]
    for case in record_family(theirs, theirs.chat_template):
        if "text" in case:
            options = dict(CONVERSATIONS[case["name"]])
            options |= options.pop("variables", {})
            assert template.render(options.pop("messages"), **options) == case["text"]


def test_the_recorded_renderings_are_still_what_transformers_renders(
    pair: tuple[Any, Tokenizer, Path],
) -> None:
    theirs, _, folder = pair
    if theirs.chat_template is None:
        pytest.skip("a base model")
    name = next(name for name in MODELS if folder.name.startswith(name))
    file = Path(__file__).parents[1] / "data" / "chat_templates" / "recorded.json"
    recorded = json.loads(file.read_text())["families"][name]["cases"]
    assert record_family(theirs, theirs.chat_template) == recorded
