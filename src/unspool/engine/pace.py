"""How many rows of prompts a step may take while others decode, from what steps have cost so far."""

from __future__ import annotations

from typing import Final, NamedTuple

_MEMORY: Final = 0.8  # how much of an average a new step leaves in place
_MEMORY_OF_ROWS: Final = 0.95  # the same for what rows cost
_RENEW: Final = 64  # steps with prompts, after which one goes without: texts grow, and so do their steps


class Chunk(NamedTuple):
    """Prompt rows of a step."""

    n_rows: int = 0
    n_attended: int = 0  # tokens that they attend to, all rows together

    @staticmethod
    def at(position: int, n_rows: int) -> Chunk:
        """n_rows rows of one text, from `position` on."""
        return Chunk(n_rows, n_rows * position + n_rows * (n_rows + 1) // 2)

    def __add__(self, other: Chunk) -> Chunk:  # type: ignore[override]
        return Chunk(self.n_rows + other.n_rows, self.n_attended + other.n_attended)


class Pace:
    """Keeps the steps of running streams below `max_slowdown` times what they take without prompts.

    A step of d decoding rows and a chunk of prompt rows is taken to cost

        decode(d) + n_rows * row + n_attended * token    seconds,

    since a row late in a long text costs several times one of its beginning. decode(d) is an average of
    steps without prompts; row and token are those of least squares over the steps so far, the recent ones
    most. Which rows share a step changes no token, so this may look at a clock.
    """

    def __init__(self, max_slowdown: float) -> None:
        self._max_slowdown = max_slowdown
        self._decode_s: dict[int, tuple[int, float]] = {}  # by bits of d: d, seconds
        self._n_since = 0  # steps with prompts since the last one without
        self._rows = _Plane()

    def n_prompt_rows(self, n_decoding: int, n_most: int, position: int = 0) -> int:
        """At most n_most rows of a prompt, which go on from `position`, beside n_decoding rows.

        At least one, so that a prompt always moves on; none only where it is time to see what a step
        costs without.
        """
        if n_decoding == 0 or self._max_slowdown == float("inf") or not self._decode_s:
            return n_most
        if self._n_since >= _RENEW:
            return 0
        decode_s = self._decode(n_decoding)
        if not self._rows.is_known:  # a row of a prompt is no more than one that decodes
            return min(max(int((self._max_slowdown - 1) * n_decoding) // 2, 1), n_most)
        limit_s = decode_s * self._max_slowdown
        low, high = 1, n_most
        while low < high:
            n = (low + high + 1) // 2
            if decode_s + self._rows.seconds(Chunk.at(position, n)) <= limit_s:
                low = n
            else:
                high = n - 1
        return min(low, n_most)

    def observe(self, n_decoding: int, chunk: Chunk, seconds: float) -> None:
        """A step of so many rows took so long."""
        if chunk.n_rows == 0:
            _, before = self._decode_s.get(n_decoding.bit_length(), (0, seconds))
            average = _MEMORY * before + (1 - _MEMORY) * seconds
            self._decode_s[n_decoding.bit_length()] = (n_decoding, average)
            self._n_since = 0
            return
        if n_decoding and not self._decode_s:
            return
        decode_s = self._decode(n_decoding) if n_decoding else 0.0
        self._n_since += n_decoding > 0
        self._rows.add(chunk, max(seconds - decode_s, 0.0))

    def _decode(self, n_decoding: int) -> float:
        """Seconds of a step of n_decoding rows: at least those of fewer, and no less than in proportion to
        those of more."""
        bits = n_decoding.bit_length()
        nearest = min(self._decode_s, key=lambda known: (abs(known - bits), known))
        n_known, seconds = self._decode_s[nearest]
        return seconds * min(n_decoding / n_known, 1.0) if nearest > bits else seconds


class _Plane:
    """Least squares of seconds = n_rows * row + n_attended * token, row and token not below 0. Each step is
    divided by its rows, so that long steps do not drown the others."""

    def __init__(self) -> None:
        self._nn = self._na = self._aa = self._ny = self._ay = 0.0
        self._row_s = self._token_s = 0.0

    @property
    def is_known(self) -> bool:
        return self._nn > 0

    def seconds(self, chunk: Chunk) -> float:
        return chunk.n_rows * self._row_s + chunk.n_attended * self._token_s

    def add(self, chunk: Chunk, seconds: float) -> None:
        a, y, keep = chunk.n_attended / chunk.n_rows, seconds / chunk.n_rows, _MEMORY_OF_ROWS
        self._nn, self._na, self._aa = keep * self._nn + 1, keep * self._na + a, keep * self._aa + a * a
        self._ny, self._ay = keep * self._ny + y, keep * self._ay + a * y
        spread = self._nn * self._aa - self._na * self._na
        if spread <= 1e-3 * self._na * self._na:  # all at one place: what it costs there, by the rows alone
            mean = self._ny / self._nn
            self._token_s = min(self._token_s, mean * self._nn / self._na)
            self._row_s = max(mean - self._token_s * self._na / self._nn, 0.0)
            return
        self._token_s = max((self._nn * self._ay - self._na * self._ny) / spread, 0.0)
        self._row_s = (self._ny - self._token_s * self._na) / self._nn
        if self._row_s < 0:  # then all of it by the tokens
            self._row_s, self._token_s = 0.0, self._ay / self._aa
