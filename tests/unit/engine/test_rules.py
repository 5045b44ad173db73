"""What parameters mean in a vocabulary, and what it refuses."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from toy_engine import ToyVocabulary, alone

from unspool.engine.rules import rules_of
from unspool.engine.spelling import spell
from unspool.engine.token_table import _TABLES, TokenTable
from unspool.errors import BadRequest, MaskConflict
from unspool.params import DecodingParams

TOKENS = [
    b"</s>", b"de", b"scribed", b" described", b" ", b"a", b"x", b"\n", b".\n\n", b": ", b"U", b"ser", b"er:",
    b"blue", b"bl", b"ue", b"\xe4\xb8", b"\x96",
]  # fmt: skip
WORDS = ToyVocabulary(TOKENS, ends=(0,))


class SpacedVocabulary(ToyVocabulary):
    """Puts a space before every text, as SentencePiece models do."""

    def encode(self, text, *, add_bos=True):
        return super().encode(" " + text)


def of(**params):
    return rules_of(DecodingParams(**params), WORDS)


def test_the_default_parameters_have_no_rules_but_the_ends():
    assert of() == rules_of(DecodingParams(), WORDS)
    assert of().end_ids == {0}
    assert of(stop_token_ids=[5]).end_ids == {0, 5}
    assert of(stop_token_ids=[5], ignore_eos=True).end_ids == {5}
    assert (of().bias, of().bad_words, of().banned_ids) == ((), (), frozenset())


def test_a_bad_word_is_banned_with_and_without_a_space_whatever_the_number_of_its_tokens():
    """vllm #23886: "described" is two tokens and " described" one, which got through."""
    assert set(of(bad_words="described").bad_words) == {(1, 2), (3,)}
    assert set(of(bad_words=" described").bad_words) == {(1, 2), (3,)}


def test_a_bad_word_is_banned_as_one_token_too_where_there_is_one():
    assert set(of(bad_words=["x"]).bad_words) == {(6,), (4, 6)}
    pieces = ToyVocabulary([b"bl", b"ue", b"blue"])
    pieces.encode = lambda text, *, add_bos=True: [0, 1] if text == "blue" else []
    assert set(rules_of(DecodingParams(bad_words="blue"), pieces).bad_words) == {(0, 1), (2,)}


def test_a_bad_word_of_spaces_is_that_text():
    assert of(bad_words=[" "]).bad_words == ((4,),)


def test_a_bad_word_that_cannot_be_written_is_refused():
    with pytest.raises(BadRequest, match="bad_words holds 'zebra', which this model's tokens cannot write"):
        of(bad_words=["a", "zebra"])


def test_a_bad_word_is_not_written_in_either_form():
    vocabulary = ToyVocabulary([b"</s>", b"a", b"b", b" a", b" "], ends=(0,))
    for seed in range(8):
        params = DecodingParams(
            seed=seed, max_tokens=60, bad_words=["ab"], temperature=5, banned_token_ids=[0]
        )
        assert "ab" not in alone([1, 2], params, vocabulary=vocabulary).text
    assert "ab" in alone([1, 2], params.replace(bad_words=()), vocabulary=vocabulary).text


def test_bias_is_by_id_or_by_the_text_of_one_token():
    rules = of(logit_bias={"blue": 2, 9: -1.5, " described": False, 1: False, " ": 0.25})
    assert rules.bias == ((4, 0.25), (9, -1.5), (13, 2.0))
    assert rules.banned_ids == {1, 3}
    assert of(banned_token_ids=[7], logit_bias={1: False}).banned_ids == {1, 7}


def test_bias_for_a_text_of_several_tokens_shows_their_ids():
    with pytest.raises(
        BadRequest, match=r"'described', which is 2 tokens in this vocabulary: \[1, 2\]; bias"
    ):
        of(logit_bias={"described": 1})


def test_bias_for_a_text_that_cannot_be_written_is_refused():
    with pytest.raises(BadRequest, match="logit_bias names 'zzz', which this model's tokens cannot write"):
        of(logit_bias={"zzz": 1})


def test_bias_for_one_token_under_two_names_is_refused():
    with pytest.raises(BadRequest, match="logit_bias names token 13 twice, as 'blue' and as 13; keep one"):
        of(logit_bias={"blue": 1, 13: 2})


@pytest.mark.parametrize(
    "name", ["stop_token_ids", "banned_token_ids", "allowed_token_ids", "penalty_exclude_ids", "logit_bias"]
)
def test_an_id_that_the_model_does_not_have_is_refused(name):
    value = {3: 1, 18: 1} if name == "logit_bias" else [3, 18]
    with pytest.raises(
        BadRequest, match=rf"^{name} holds the token id 18; this model's ids are \[0, 18\)$"
    ) as e:
        of(**{name: value})
    assert e.value.code == "bad_token_id"
    with pytest.raises(BadRequest, match=rf"^{name} holds the token id 7; this model's ids are \[0, 7\)$"):
        alone([1], DecodingParams(**{name: {7: 1} if name == "logit_bias" else [7]}), vocabulary=SHORT)


SHORT = ToyVocabulary(TOKENS[:7], ends=(0,))


def test_every_token_that_holds_a_breaker_is_one():
    rules = of(dry_multiplier=1, dry_breakers=["\n", ":"])
    assert rules.dry_breaker_ids == {7, 8, 9, 12}
    assert rules.dry_breaker_runs == ()


def test_a_breaker_across_tokens_is_found_wherever_a_token_begins_it():
    rules = of(dry_multiplier=1, dry_breakers=["User: "])
    assert rules.dry_breaker_ids == frozenset()
    assert rules.dry_breaker_runs == ((10, 11, 9),)  # "Us" and "User" end no token
    assert set(of(dry_multiplier=1, dry_breakers=["ue: "]).dry_breaker_runs) == {(13, 9), (15, 9)}


def test_breakers_and_newlines_are_looked_up_for_who_uses_them_alone():
    assert of(dry_multiplier=0).dry_breaker_ids == frozenset()
    assert of(xtc_probability=0.5).newline_ids == {7, 8}
    assert of().newline_ids == of(xtc_probability=0.5, order="llama.cpp").newline_ids == frozenset()


def test_a_text_is_spelled_without_the_space_that_begins_every_text():
    spaced = SpacedVocabulary([b"</s>", b" blue", b"blue", b" ", b"\n", b"de", b" de"], ends=(0,))
    assert spell("blue", spaced) == (2,)
    assert spell(" blue", spaced) == (1,)
    assert spell("de", spaced) == (5,)
    assert spell("zebra", spaced) is None


def test_a_token_table_finds_what_a_look_at_every_token_finds():
    table = TokenTable.of(WORDS)
    texts = [b"" if i == 0 else text for i, text in enumerate(TOKENS)]
    for data in (b"\n", b"e", b"er", b"ue", b"s", b" ", b"\x96", b"described", b"\xb8\x96", b"de", b"q" * 99):
        assert table.holding(data) == {i for i, text in enumerate(texts) if data in text}
        assert table.equal(data) == tuple(i for i, text in enumerate(texts) if data == text)
        assert table.ending(data) == [i for i, text in enumerate(texts) if text.endswith(data)]


def test_the_siblings_of_a_banned_token_are_told():
    """llama.cpp #19699: a token was banned, and its sibling with a space before it came out."""
    tokens = [b"</s>", b"blue", b" blue", b"Blue", b"BLUE", b" Blue", b"bluer", b"", b" ", b"\xff", b"BLue"]
    table = TokenTable(ToyVocabulary(tokens, ends=(0,)))
    assert table.siblings(1) == (2, 3, 4, 5)
    assert table.siblings(5) == (1, 2, 3, 4)
    assert [table.siblings(i) for i in (0, 6, 7, 8, 9)] == [()] * 5


def test_answers_about_many_texts_do_not_pile_up():
    table = TokenTable(WORDS)
    for n in range(1000):
        assert table.holding(b"%d" % n) == frozenset()
    assert len(table._holding) == 256
    assert table.holding(b"999") == frozenset()


def test_engines_on_several_threads_may_ask_one_table(monkeypatch):
    table = TokenTable(WORDS)
    monkeypatch.setattr(table, "_find", lambda data: frozenset(data))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as threads:

            def ask(k: int) -> None:
                for n in range(10_000):
                    assert table.holding(b"%d %d" % (n, k)) == frozenset(b"%d %d" % (n, k))

            list(threads.map(ask, range(6)))
    finally:
        sys.setswitchinterval(interval)


def test_a_token_table_is_made_once_and_goes_with_its_vocabulary():
    gc.collect()
    vocabulary = ToyVocabulary([b"a", b"b"])
    assert TokenTable.of(vocabulary) is TokenTable.of(vocabulary)
    n = len(_TABLES)
    del vocabulary
    gc.collect()
    assert len(_TABLES) == n - 1


def test_masks_that_leave_nothing_end_the_request_with_an_error_and_no_other():
    told = alone([1], DecodingParams(allowed_token_ids=[3, 4], no_repeat_ngram_size=1, ignore_eos=True))
    assert told.last.finish_reason == "error"
    assert isinstance(told.last.error, MaskConflict)
    assert sorted(told.token_ids) == [3, 4]


def test_min_tokens_yields_where_all_that_is_allowed_ends_the_text():
    told = alone([1], DecodingParams(allowed_token_ids=[0], min_tokens=5, max_tokens=9))
    assert (told.last.finish_reason, told.last.stop) == ("stop", 0)


@pytest.mark.parametrize("n", [1, 4])
def test_exactly_min_tokens_come_before_an_end_that_is_wanted_at_once(n):
    params = DecodingParams(
        logit_bias={0: 100}, min_tokens=n, max_tokens=20, include_stop=True, temperature=0
    )
    told = alone([1, 2], params)
    assert told.token_ids[-1] == 0
    assert len(told.token_ids) == n + 1
