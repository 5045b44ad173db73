"""How each kind of byte-level vocabulary cuts text into words."""

from __future__ import annotations

from itertools import pairwise

import pytest

from unspool.models.tokenizer.pre_tokenizers import WORD_RULES, splitter, word_rule
from unspool.models.tokenizer.spelling import bytes_of_byte_level_piece

TEXT = "I'LL don't pay 12345 €,\n\n  HTTPServer x=y/z\n"

# Cut by hand from each model family's published rule.
EXPECTED = {
    "gpt-2": "I|'|LL| don|'t| pay| 12345| €,|\n\n | HTTPServer| x|=|y|/|z|\n",
    "smollm": "I|'|LL| don|'t| pay| |1|2|3|4|5| €,|\n\n | HTTPServer| x|=|y|/|z|\n",
    "llama-bpe": "I|'LL| don|'t| pay| |123|45| €,\n\n| | HTTPServer| x|=y|/z|\n",
    "qwen2": "I|'LL| don|'t| pay| |1|2|3|4|5| €,\n\n| | HTTPServer| x|=y|/z|\n",
    "gpt-4o": "I'LL| don't| pay| |123|45| €,\n\n| | HTTPServer| x|=y|/z|\n",
    "tekken": "I|'LL| don|'t| pay| |1|2|3|4|5| €,\n\n| | HTTPServer| x|=y|/z|\n",
    "falcon": "I|'|LL| don|'|t| pay| |123|45| €|,|\n\n | HTTPServer| x|=|y|/|z|\n",
    "deepseek-coder": "I|'|LL| don|'|t| pay| |1|2|3|4|5| |€|,|\n|\n| | HTTPServer| x|=|y|/|z|\n",
    "deepseek-v3": "I|'LL| don|'t| pay| |123|45| €,\n\n| | HTTPServer| x|=y|/z|\n",
}


def cut(name: str, text: str) -> list[str]:
    words = splitter(word_rule("test", name)).pre_tokenize_str(text)
    return [bytes_of_byte_level_piece(word).decode() for word, _ in words]


@pytest.mark.parametrize("name", EXPECTED)
def test_words_are_cut_where_the_family_cuts_them(name: str) -> None:
    assert cut(name, TEXT) == EXPECTED[name].split("|")


@pytest.mark.parametrize("name", WORD_RULES)
def test_every_rule_compiles_and_loses_nothing(name: str) -> None:
    for text in (TEXT, "", " ", "a", "漢字かな 한글", "e\u0301\u200d😀", "\t\r\n x", "١٢٣ ½"):
        assert "".join(cut(name, text)) == text


@pytest.mark.parametrize("name", ["llama-bpe", "qwen2", "smollm", "gpt-4o", "deepseek-llm"])
def test_a_cut_of_a_cut_is_itself(name: str) -> None:
    for first, _ in pairwise(cut(name, TEXT)):
        assert "".join(cut(name, first)) == first
