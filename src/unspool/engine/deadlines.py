"""When requests have to be over, looked at without looking at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Container


class Deadlines:
    """A heap of (time, request id). Who ends before its time stays in it, for a while."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._n_at_last_look = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, at: float, request_id: int) -> None:
        heapq.heappush(self._heap, (at, request_id))

    def passed(self, now: float, in_flight: Container[int]) -> list[int]:
        """Take out the requests in flight whose time is over, in order of arrival."""
        if len(self._heap) > 2 * self._n_at_last_look + 64:  # who has ended since then is let go of
            self._heap = [entry for entry in self._heap if entry[1] in in_flight]
            heapq.heapify(self._heap)
            self._n_at_last_look = len(self._heap)
        ids: list[int] = []
        while self._heap and self._heap[0][0] <= now:
            request_id = heapq.heappop(self._heap)[1]
            if request_id in in_flight:
                ids.append(request_id)
        return sorted(ids)

    def next(self, in_flight: Container[int]) -> float | None:
        """The next time of a request in flight, if there is one."""
        while self._heap and self._heap[0][1] not in in_flight:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
