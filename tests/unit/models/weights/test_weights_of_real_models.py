"""The catalogue models through our reader and through the gguf package."""

import gguf
import numpy as np
import pytest

from unspool.models.weights import dequantize, dequantize_rows, open_weights

pytestmark = pytest.mark.model
MODELS = ("smollm2-135m", "qwen2.5-coder-1.5b", "gemma3-270m")


@pytest.fixture(scope="module", params=MODELS)
def both(request, model_path):
    """Our source and the package's reader of one file; the latter takes seconds to open."""
    path = model_path(request.param)
    with open_weights(path) as ours:
        yield ours, gguf.GGUFReader(path)


def test_names_shapes_and_values_are_those_of_the_gguf_package(both):
    ours, reader = both
    theirs = {tensor.name: tensor for tensor in reader.tensors}
    assert set(ours.names()) == set(theirs)
    for name, their in theirs.items():
        tensor = ours.tensor(name)
        assert list(tensor.shape) == [int(size) for size in reversed(their.shape)]
        assert tensor.encoding.label == their.tensor_type.name
        np.testing.assert_array_equal(tensor.data[:1000], their.data.reshape(-1).view(np.uint8)[:1000])
        if len(tensor.shape) == 1:
            np.testing.assert_array_equal(dequantize(tensor), their.data)
        else:
            expected = gguf.quants.dequantize(their.data[-4:], their.tensor_type)
            last_rows = range(tensor.shape[0] - 4, tensor.shape[0])
            np.testing.assert_array_equal(dequantize_rows(tensor, last_rows), expected)


def test_metadata_is_that_of_the_gguf_package(both):
    ours, reader = both
    fields = reader.fields
    assert set(ours.metadata) == {key for key in fields if not key.startswith("GGUF.")}
    for key, value in ours.metadata.items():
        expected = fields[key].contents()
        assert (value.tolist() if isinstance(value, np.ndarray) else value) == expected, key
