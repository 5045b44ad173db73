"""What all dialects share: unknown names, names of others, kinds of objects, changes as text."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from unspool.errors import BadRequest
from unspool.mappings import DIALECTS, Change
from unspool.mappings.dialect import read
from unspool.params import DecodingParams

READERS = {
    "openai": DecodingParams.from_openai,
    "anthropic": DecodingParams.from_anthropic,
    "vllm": DecodingParams.from_vllm,
    "llama_cpp": DecodingParams.from_llama_cpp,
    "ollama": DecodingParams.from_ollama,
    "transformers": DecodingParams.from_transformers,
}
WRITERS = {
    "openai": DecodingParams.to_openai,
    "anthropic": DecodingParams.to_anthropic,
    "vllm": DecodingParams.to_vllm,
    "llama_cpp": DecodingParams.to_llama_cpp,
    "ollama": DecodingParams.to_ollama,
    "transformers": DecodingParams.to_transformers,
}


@pytest.mark.parametrize("name", DIALECTS)
def test_params_have_a_from_and_a_to_for_every_dialect(name):
    params, changes = READERS[name]({"top_p": 0.5})
    assert (params, changes) == read(DIALECTS[name], {"top_p": 0.5})
    assert params.top_p == 0.5
    theirs, _ = WRITERS[name](params)
    assert theirs["top_p"] == 0.5


@pytest.mark.parametrize("name", DIALECTS)
def test_an_unknown_name_is_refused_and_the_nearest_offered(name):
    with pytest.raises(
        BadRequest, match="has no parameter 'tempreature'; did you mean 'temperature'"
    ) as caught:
        READERS[name]({"tempreature": 1})
    assert caught.value.code == "unknown_parameter"
    with pytest.raises(BadRequest, match=r"has no parameter 'zzzzzz'; known are .*top_p"):
        READERS[name]({"zzzzzz": 1})


@pytest.mark.parametrize("name", DIALECTS)
def test_a_value_out_of_range_is_refused_under_the_name_that_was_given(name):
    with pytest.raises(BadRequest, match=r"top_p must be a number in \(0, 1\], got -0.5") as caught:
        READERS[name]({"top_p": -0.5})
    assert caught.value.code == "bad_top_p"


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("given", [None, "top_p", 5, ["top_p"]])
def test_parameters_are_names_with_values(name, given):
    with pytest.raises(BadRequest, match="must be names with values") as caught:
        READERS[name](given)
    assert caught.value.code == "bad_params"


def test_an_error_of_ours_names_their_parameter():
    with pytest.raises(BadRequest, match=r"^stop_sequences: stop holds 5") as caught:
        DecodingParams.from_anthropic({"stop_sequences": [5]})
    assert caught.value.code == "bad_stop_sequences"
    with pytest.raises(BadRequest, match=r"^stop holds 5") as caught:
        DecodingParams.from_openai({"stop": [5]})
    assert caught.value.code == "bad_stop"
    with pytest.raises(BadRequest, match="repeat_penalty must be a number in"):
        DecodingParams.from_llama_cpp({"repeat_penalty": 0})


def test_two_names_for_one_thing_are_refused():
    with pytest.raises(BadRequest, match="max_completion_tokens=7: max_tokens says the same; keep one"):
        DecodingParams.from_openai({"max_tokens": 5, "max_completion_tokens": 7})


def test_what_is_no_decoding_parameter_is_listed_and_not_lost():
    _, changes = DecodingParams.from_openai({"model": "m", "stream": True, "max_tokens": 3})
    assert [str(change) for change in changes] == [
        "model='m': no decoding parameter: it is the request's",
        "stream=True: no decoding parameter: it is about how the answer is sent or accounted for",
    ]


def test_a_change_reads_as_one_line():
    change = Change("n_predict", -1, "max_tokens", None, "without end")
    assert str(change) == "n_predict=-1 -> max_tokens: without end"


class Struct:
    __struct_fields__ = ("temperature", "max_tokens", "_hidden")

    def __init__(self) -> None:
        self.temperature = 0.5
        self.max_tokens = None
        self._hidden = 3


@dataclass
class Plain:
    temperature: float = 0.5
    max_tokens: int | None = None
    _hidden: int = 3


class WithToDict:
    def to_dict(self) -> dict[str, float]:
        return {"temperature": 0.5, "do_sample": True}


def test_objects_are_read_like_mappings():
    for given in (Struct(), Plain()):
        params, _ = DecodingParams.from_vllm(given)
        assert (params.temperature, params.max_tokens) == (0.5, None)
    assert DecodingParams.from_transformers(WithToDict())[0].temperature == 0.5


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "vllm", "llama_cpp", "ollama", "transformers"])
def test_names_may_be_given_as_keyword_arguments(dialect):
    from_dialect = getattr(DecodingParams, f"from_{dialect}")
    assert from_dialect(temperature=0.5) == from_dialect({"temperature": 0.5})
    with pytest.raises(BadRequest, match="and beside it top_p; put all in one place"):
        from_dialect({"temperature": 0.5}, top_p=0.9)
