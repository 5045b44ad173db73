"""Pipelines of the tokenizers library like those of well-known models, but with a handful of pieces."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Pipeline

from unspool.models.tokenizer.spelling import CHARACTER_OF_BYTE, SPACE_MARK, fallback_piece

MARK = SPACE_MARK
CONFIG = {"bos_token": "<|begin|>", "eos_token": {"content": "<|im_end|>", "special": True}}
MARKED_CONFIG = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}


def byte_level_pipeline() -> Pipeline:
    """Like Llama 3: BOS from the post-processor, control tokens outside the model's own vocabulary."""
    vocabulary = {piece: i for i, piece in enumerate([*CHARACTER_OF_BYTE, "he", "ll", "Ġhe"])}
    pipeline = Pipeline(models.BPE(vocabulary, [("h", "e"), ("l", "l"), ("Ġ", "he")]))
    pipeline.normalizer = normalizers.NFC()
    pipeline.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\p{L}+|\p{N}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    pipeline.decoder = decoders.ByteLevel()
    pipeline.add_tokens(
        [
            AddedToken("<|begin|>", special=True, normalized=False),
            AddedToken("<tool>", special=False, normalized=False),
            AddedToken("<|im_end|>", special=True, normalized=False),
        ]
    )
    pipeline.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", 259)]
    )
    return pipeline


def marked_pipeline(prefix: str) -> Pipeline:
    """Like Llama 2 ("legacy", "first", "always") or Gemma ("none")."""
    pieces = ["<unk>", "<s>", "</s>", *map(fallback_piece, range(256)), MARK, "a", "b", "ab", MARK + "a"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    pipeline = Pipeline(
        models.BPE(
            vocabulary, [("a", "b"), (MARK, "a")], unk_token="<unk>", fuse_unk=True, byte_fallback=True
        )
    )
    steps: list[Any] = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix == "legacy":
        pipeline.normalizer = normalizers.Sequence(
            [normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]
        )
    elif prefix == "none":
        pipeline.normalizer = normalizers.Replace(" ", MARK)
    else:
        pipeline.pre_tokenizer = pre_tokenizers.Metaspace(MARK, prepend_scheme=prefix, split=False)
    if prefix != "none":
        steps.append(decoders.Strip(" ", 1, 0))
    pipeline.decoder = decoders.Sequence(steps)
    pipeline.add_tokens(
        [AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")]
        + [AddedToken("<tool>", special=False, normalized=False)]
    )
    return pipeline


def tiny_pipeline(n_tokens: int) -> Pipeline:
    """Three control tokens and single bytes, as many as the vocabulary has room for."""
    control = ["<pad>", "<bos>", "<eos>"]
    pieces = [*control, *CHARACTER_OF_BYTE[65:][: n_tokens - len(control)]]
    pipeline = Pipeline(models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    pipeline.add_special_tokens(control)
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = decoders.ByteLevel()
    return pipeline
