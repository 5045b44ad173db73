"""The native core (csrc/bindings*.cpp). Registers, matrices, vectors and ropes are known by number."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from unspool.types import F32, F64, I32, Ids

def instruction_sets() -> list[str]:
    """Names of the kernel sets this machine runs, widest first."""

def fit_lines(x: F32, highest: int, lets_min_be_positive: bool, isa: str = "") -> F32:
    """Of blocks (N, B) of finite float32, 1 <= B <= 256, the scales and minimums (2, N) for integers in
    [0, highest]: `models.weights.fit`."""

def fit_scales(x: F32, lowest: int, isa: str = "") -> F32:
    """The same with scales (N,) alone, for integers in [lowest, -lowest - 1]."""

def string_starts(data: npt.NDArray[np.uint8], position: int, end: int, n: int) -> npt.NDArray[np.int64]:
    """Where the bytes begin of each of n strings, 8 bytes of length before each, that follow each other from
    `position`; fewer than n where one does not end before `end`."""

def strings(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> list[str]:
    """The strings between each two starts, without the 8 bytes before the second; UnicodeDecodeError for one
    that is not UTF-8."""

def split_strings(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> list[tuple[str, ...]]:
    """The same, each cut at its spaces."""

class Engine:
    """One network with its weights, KV pages and threads.

    One thread builds it: what another would add while matrices are packed is refused (ValueError). Then
    threads take turns. A child that was forked in the turn of another thread gets UnspoolError with the code
    `forked`.
    """

    def __init__(self, n_threads: int, isa: str) -> None:
        """`isa` is a name of `instruction_sets`, or empty for the widest."""
    def plan_matrix(self, encoding: int, data: npt.NDArray[np.uint8], n: int, k: int, is_mapped: bool) -> int:
        """An (n, k) matrix stored row by row in `encoding` (a GGUF type number), which `pack` will pack.

        The pages of a mapped file are given back as they are read.
        """
    def pack(self) -> int:
        """Pack what was planned; the first matrix that holds what is no finite number, or -1."""
    def add_matrix(self, encoding: int, data: npt.NDArray[np.uint8], n: int, k: int) -> int:
        """Plan a matrix and pack it at once; OverflowError for what is no finite number."""
    def add_vector(self, values: F32) -> int: ...
    def add_register(self, width: int) -> int: ...
    def add_rope(self, inv_freq: npt.NDArray[np.float64], magnitude: float) -> int: ...
    def embed(self, out: int, matrix: int, factor: float) -> None: ...
    def norm(self, out: int, x: int, vector: int, eps: float, group: int, selected: bool) -> None: ...
    def linear(self, x: int, parts: list[tuple[int, int, int, bool]], selected: bool) -> None:
        """Parts are (matrix, bias vector or -1, out register or -2 for the logits, accumulate)."""
    def rope(self, x: int, table: int, head_dim: int, interleaved: bool) -> None: ...
    def attention(
        self,
        out: int,
        q: int,
        k: int,
        v: int,
        layer: int,
        n_heads: int,
        n_kv_heads: int,
        scale: float,
        softcap: float,
        window: int,
    ) -> None:
        """`softcap` and `window` are 0 for none."""
    def gated(self, out: int, gate: int, up: int, gelu: bool, selected: bool) -> None: ...
    def add(self, out: int, a: int, b: int, selected: bool) -> None: ...
    def scale(self, out: int, x: int, factor: float, selected: bool) -> None: ...
    def softcap(self, out: int, x: int, cap: float, selected: bool) -> None: ...
    def select(self, out: int, x: int) -> None: ...
    def finish(
        self,
        vocab_size: int,
        context_length: int,
        n_layers: int,
        n_kv_heads: int,
        head_dim: int,
        n_pages: int,
        page_size: int,
    ) -> None:
        """Close the list of instructions and reserve KV pages (memory is taken as pages are written)."""
    def forward(
        self, token_ids: I32, seq_start: I32, n_past: I32, page_table: I32, page_start: I32, logits_rows: I32
    ) -> F32:
        """Fields of `types.Plan`; returns (W, V). ValueError when the plan breaks its rules."""
    def sampler(self) -> Sampler:
        """The fused pass on the threads of the forward pass, which takes turns with it."""
    def copy_page(self, source: int, target: int) -> None: ...
    def read_page(self, page: int) -> npt.NDArray[np.uint16]:
        """The bits of a page's float16 values, as KvStore in csrc/kv_store.h lays them out."""
    def write_page(self, page: int, values: npt.NDArray[np.uint16]) -> None:
        """What `read_page` gives, put back; ValueError for another page size or a page out of range."""
    def note_times(self, on: bool) -> None:
        """Whether forward passes note when each instruction began and ended; off, no clock is read."""
    def times(self) -> npt.NDArray[np.int64]:
        """(laps, 5) of the last pass that noted them, thread by thread in the order in which each ran them:
        thread, instruction, and nanoseconds of the monotonic clock at which the thread was ready for its
        part of the instruction, began it (others had to end theirs first) and ended it."""
    def read_rate(self) -> float:
        """Bytes a second that all threads read from memory: a quarter of a GiB, some times."""
    def integer_rate(self) -> float:
        """Multiply-adds a second of 8-bit integers on all threads, in registers."""
    def unpack(self, matrix: int) -> F32:
        """Values (n, k) of a packed matrix; for tests."""
    def product(self, matrix: int, x: F32, shifts: bool = False) -> F32:
        """x (R, k) times the matrix transposed, through the kernels; for tests. With shifts the scales that x
        is rounded with are powers of two."""
    @property
    def weight_bytes(self) -> int: ...
    @property
    def kv_bytes(self) -> int: ...
    @property
    def spare_bytes(self) -> int:
        """Of memory kept for logits to come: that of arrays from `forward` which nobody holds any more."""
    @property
    def isa(self) -> str: ...

class Program:
    """What is done to a request's rows; logits/fused.py writes it, csrc/sampling/program.h explains it."""

    def __init__(self, greedy: bool) -> None: ...
    def add(
        self, kind: int, a: float, b: float, c: float, flag: bool, ids: Sequence[int], values: Sequence[float]
    ) -> None: ...

class Tally:
    """How often each token occurs in what the penalties look at: csrc/sampling/tally.h."""

    def __init__(self) -> None: ...
    def add(self, scope: int, token_id: int, by: int) -> None:
        """`scope` is 0 for what repetition looks at, 1 for what frequency and presence do.

        Never while a pass reads the counts (`Sampler.run`, `choose`), which lets other threads run: the
        tables may move. Tallies are made by `History` alone, and a branch's history grows in
        `engine.commit`, on the thread that made the pass; nothing public hands one out.
        """
    def copy(self) -> Tally: ...
    def counts(self) -> dict[int, tuple[int, int]]:
        """Both counts of each token of which one is not 0."""

# running value, edits of DRY (ids, amounts), banned ids
Following: TypeAlias = tuple[float, tuple[I32, F64] | None, I32 | None]

# program, seed, branch, position, tokens of the answer so far, running value; counts of the penalties, edits
# of DRY, banned ids; whether candidates are wanted: none, all, or so many of the first in order at least
RowLine: TypeAlias = tuple[
    Program, int, int, int, int, float,
    Tally | None, tuple[I32, F64] | None, I32 | None,
    bool | int,
]  # fmt: skip

class StandingRows:
    """Rows of the same branches, step after step. Their positions are read off their texts."""

    def __init__(self, rows: list[tuple[Program, int, int, int, list[int], Tally | None]]) -> None:
        """Of each: program, seed, branch, tokens of the prompt, the list that the text grows in, counts."""

# token, observed; ids and logits of the candidates, and the logarithm of their sum, where they are wanted
RowAnswer: TypeAlias = tuple[int, float | None, None, None] | tuple[int, float | None, Ids, F64, float]

class Sampler:
    """The fused pass with its threads, or from `Engine.sampler` with those of an engine. May be used from
    several threads at once."""

    def __init__(self, n_threads: int, isa: str) -> None: ...
    def run(self, logits: F32, rows: list[RowLine | None]) -> list[RowAnswer | None]:
        """(token, observed, candidate ids ascending, their logits, log of the sum of e^(logit - largest) over
        all survivors) of each row, of which only those that want candidates have the last; None for a row
        that is None or has no candidate or a logit that is no number. `logits` (R, V), each row contiguous,
        are written to and put back."""
    def choose(
        self,
        logits: F32,
        rows: StandingRows,
        changing: list[tuple[int, float, tuple[I32, F64] | None, I32 | None]],
    ) -> list[tuple[int, float | None] | None]:
        """(token, observed) of each row, as `run` says it. `changing` is what is new for rows that have more
        than a tally: the number of the row, and what `Following` has."""
    @property
    def isa(self) -> str: ...
