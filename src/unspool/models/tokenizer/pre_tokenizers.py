r"""How byte-level vocabularies cut text into words before merging, by the name GGUF gives the kind.

Merges never cross a cut, so a wrong rule gives other ids than the model was trained on. The expressions are
those of the models' own tokenizer.json files (Oniguruma syntax, as the tokenizers library runs them). Each
expression of a kind cuts what the one before left: a match is a word, and so is what lies between matches.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from unspool.errors import UnsupportedModel
from unspool.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WordRule:
    """Expressions, and two habits of the models that use them (both can be overridden by the file)."""

    expressions: tuple[str, ...]
    takes_whole_words: bool = False  # a word that is a token is that token, whatever the merges say
    adds_bos: bool = False


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_BLANK = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"

GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_PUNCTUATION}|{_BLANK}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_PUNCTUATION}|{_BLANK}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_BLANK}"
)

# Words cut where capitals end: "HTTPServer" -> "HTTPServer", "camelCase" -> "camel", "Case".
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{{end}}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{{end}}"
_PUNCTUATION_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_GPT4O = _CASED.replace("{end}", f"{_CONTRACTION}?") + rf"|\p{{N}}{{1,3}}|{_PUNCTUATION_SLASH}|{_BLANK}"
_TEKKEN = _CASED.replace("{end}", "") + rf"|\p{{N}}|{_PUNCTUATION_SLASH}|{_BLANK}"

_ASCII_PUNCTUATION = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
_DEEPSEEK_WORD = (
    rf"{_ASCII_PUNCTUATION}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_BLANK}"
)
_CJK = r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# The letters with case and the punctuation that the tokenizer of DeepSeek LLM lists range by range.
_DEEPSEEK_CASED = (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376-377 37B-37D 37F 386 388-38A 38C "
    "38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B "
    "1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D "
    "1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 "
    "2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E "
    "2183-2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2-2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E "
    "AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 "
    "10CC0-10CF2 118A0-118DF 1E900-1E943"
)
_DEEPSEEK_PUNCTUATION = "21-2F 3A-7E FF01-FF0F FF1A-FF5E 2018-201F 3000-3002"


def _class(ranges: str) -> str:
    """A character class from code points in hexadecimal: "41-5A B5"."""
    ends = ["-".join(rf"\x{{{end}}}" for end in part.split("-")) for part in ranges.split()]
    return f"[{''.join(ends)}]"


_RULES: dict[WordRule, str] = {
    WordRule((r"[\p{P}\$\+<=>\^~\|]+", GPT2_WORDS, r"\p{N}+", r"[0-9][0-9][0-9]")): "default",
    WordRule((GPT2_WORDS,)): (
        "gpt-2 phi-2 mpt olmo jais exaone4 gigachat a.x-4.0 mellum trillion granite-docling"
    ),
    WordRule((r"\p{N}", GPT2_WORDS)): "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    WordRule((_LLAMA3,), takes_whole_words=True, adds_bos=True): (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2"
    ),
    WordRule((_LLAMA3,)): "dbrx smaug-bpe chatglm-bpe glm4",
    WordRule((_QWEN2,)): ("qwen2 stablelm2 deepseek-r1-qwen megrez kormo f2llmv2 hunyuan grok-2 solar-open"),
    WordRule((_QWEN35,)): "qwen35",
    WordRule((_GPT4O,)): "gpt-4o llama4 kanana2 talkie minimax-m2",
    WordRule((_TEKKEN,), takes_whole_words=True, adds_bos=True): "tekken",
    WordRule((r"[\p{P}\$\+<=>\^~\|`]+", GPT2_WORDS, r"[0-9][0-9][0-9]")): "falcon",
    WordRule(
        (
            r"[\r\n]",
            rf"\s?{_class(_DEEPSEEK_CASED)}+",
            rf"\s?{_class(_DEEPSEEK_PUNCTUATION)}+",
            r"\s+$",
            _CJK,
            r"\p{N}",
        )
    ): "deepseek-llm",
    WordRule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")): "deepseek-coder",
    WordRule((r"\p{N}{1,3}", r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK_WORD)): (
        "deepseek-v3 hunyuan-dense joyai-llm"
    ),
    WordRule((r" ?[^(\s|.,!?…。，、।۔،)]+",)): "bloom poro-chat gpt3-finnish",
    WordRule((r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}")): "viking",
    WordRule(
        (rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",)
    ): "seed-coder",
    WordRule(
        (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
            r"|\s*[\r\n]|\s+(?!\S)|\s+",
        )
    ): "bailingmoe bailingmoe2 llada-moe",
    WordRule((r"\p{N}+", r"(?=(\d{3})+(?!\d))")): "superbpe",
}

WORD_RULES: MappingProxyType[str, WordRule] = MappingProxyType(
    {name: rule for rule, names in _RULES.items() for name in names.split()}
)


def word_rule(file: str, name: str) -> WordRule:
    """The rule of this name; UnsupportedModel lists the known ones."""
    rule = WORD_RULES.get(name)
    if rule is None:
        known = ", ".join(sorted(WORD_RULES))
        raise UnsupportedModel(
            f"{file}: tokenizer.ggml.pre: is {name[:80]!r}, a way of splitting words that is not known here; "
            f"known: {known}"
        )
    return rule


def splitter(rule: WordRule) -> Any:
    """The rule as a pre-tokenizer of the tokenizers library."""
    from tokenizers import Regex, pre_tokenizers

    cuts = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in rule.expressions]
    return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
