"""What the native core runs, instruction by instruction, as a reader of timings needs to know it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from unspool.light_dataclass import dataclass

Kind = Literal["embedding", "norm", "products", "output", "rope", "attention", "gate", "other"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)  # in the order in which a pass meets them first


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a forward pass.

    kind          what it does; "output" is the product that gives the logits
    name          the weights it reads, or the register it writes
    weight_bytes  of packed weights, counted once a pass however often blocks of rows pass over them
    macs          multiply-adds with them, a row
    """

    kind: Kind
    name: str
    weight_bytes: int = 0
    macs: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """What one thread did of one instruction at one time; nanoseconds of the monotonic clock.

    Between `ready_ns` and `began_ns` it waited for other threads to finish what the instruction reads. A
    thread that takes several blocks of rows comes to an instruction once with each.
    """

    instruction: Instruction
    thread: int
    ready_ns: int
    began_ns: int
    ended_ns: int


def spans(instructions: tuple[Instruction, ...], times: npt.NDArray[np.int64]) -> Iterator[Span]:
    """The spans of one pass, thread by thread in the order in which each ran them; times (laps, 5) as the
    core notes them."""
    for thread, index, ready, began, ended in times.tolist():
        yield Span(instructions[index], thread, ready, began, ended)
