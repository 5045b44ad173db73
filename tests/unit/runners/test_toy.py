"""The toy runner sees every mistake in paging."""

from __future__ import annotations

import numpy as np
import pytest
from random_plans import Part, make_plan

from unspool.runners.toy import ToyRunner


def test_logits_are_those_of_the_sequence_whatever_the_chunks_and_pages():
    runner = ToyRunner(vocab_size=11)
    tokens = [3, 1, 4, 1, 5, 9, 2, 6, 5]
    whole = runner.forward(make_plan([Part(tokens, 0, [7, 2, 5])]))
    assert whole.shape == (9, 11)
    assert whole.dtype == np.float32
    again = ToyRunner(vocab_size=11)
    rows = [again.forward(make_plan([Part([token], t, [0, 1, 2])])) for t, token in enumerate(tokens)]
    assert np.concatenate(rows).tobytes() == whole.tobytes()
    assert whole[-1].tobytes() == runner.logits_of(tokens).tobytes()


def test_a_page_that_was_never_written_fails():
    runner = ToyRunner()
    runner.forward(make_plan([Part([1, 2, 3, 4], 0, [0])]))
    with pytest.raises(AssertionError, match="slots hold positions"):
        runner.forward(make_plan([Part([5], 4, [1, 2])]))


def test_another_history_gives_other_logits():
    runner = ToyRunner()
    runner.forward(make_plan([Part([1, 2, 3], 0, [0])]))
    first = runner.forward(make_plan([Part([4], 3, [0])]))
    runner.forward(make_plan([Part([1, 5, 3], 0, [0])]))
    assert runner.forward(make_plan([Part([4], 3, [0])])).tobytes() != first.tobytes()


def test_a_plan_without_wanted_rows_gives_no_logits():
    assert ToyRunner().forward(make_plan([Part([1], 0, [0])], [])).shape == (0, 8)


def test_a_copied_page_reads_like_the_original():
    runner = ToyRunner()
    runner.forward(make_plan([Part([1, 2], 0, [0])]))
    runner.copy_page(0, 3)
    assert (
        runner.forward(make_plan([Part([5], 2, [3])]))[0].tobytes() == runner.logits_of([1, 2, 5]).tobytes()
    )


def test_sharpness_scales_the_logits():
    flat, sharp = ToyRunner(sharpness=1), ToyRunner(sharpness=4)
    np.testing.assert_allclose(sharp.logits_of([1]), 4 * flat.logits_of([1]), rtol=1e-6)
    sharp.close()
    assert sharp.is_closed
