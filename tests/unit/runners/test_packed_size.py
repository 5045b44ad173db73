"""The size of packed weights by formula is the size that the native core allocates."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_models import TinySpec, tiny_source

from unspool import _native
from unspool.models.architectures import build_graph
from unspool.models.config import read_config
from unspool.models.weights.base import Encoding
from unspool.runners.native_builder import TYPE_NUMBERS
from unspool.runners.packed_size import packed_bytes, step_bytes


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda encoding: encoding.label)
@pytest.mark.parametrize("n_out", [1, 16, 33])
@pytest.mark.parametrize("n_blocks", [1, 3])
def test_a_matrix_of_each_encoding_takes_what_the_core_takes_for_it(encoding, n_out, n_blocks):
    n_in = n_blocks * max(encoding.block_values, 32)
    row_bytes = n_in // encoding.block_values * encoding.block_bytes
    engine = _native.Engine(1, "")
    engine.add_matrix(TYPE_NUMBERS[encoding], np.zeros(n_out * row_bytes, np.uint8), n_out, n_in)
    assert engine.weight_bytes == packed_bytes(encoding, n_out, n_in)


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda encoding: encoding.label)
def test_a_matrix_is_read_as_the_bytes_it_has_in_its_file_or_six_percent_more(encoding):
    stored = 1024 * 2048 // encoding.block_values * encoding.block_bytes
    assert stored <= packed_bytes(encoding, 1024, 2048) <= 1.06 * stored


def test_a_step_reads_the_output_matrix_and_not_the_whole_embedding():
    for tied in (True, False):
        source = tiny_source(TinySpec(tied=tied))
        found = step_bytes(build_graph(read_config(source), source), source)
        matrices = [source.tensor(name) for name in source.names() if len(source.tensor(name).shape) == 2]
        read = [t for t in matrices if tied or t.name != "token_embd.weight"]
        assert found == (sum(t.data.nbytes for t in read),) * 2  # float32, and whole tiles
