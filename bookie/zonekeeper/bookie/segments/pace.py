"""How fast entries may arrive while the rewrite is behind. Pure.

The arrival segments are a buffer between who appends and the rewrite. While less than half of them
is in use nothing is slowed, so that bursts, and who appends little, pay nothing. In the other half
arrivals may come at the rewrite's rate, times what is left of that half, by what is used of it:

    =====================  =====  =====  =====  =====  ======
    segments in use         50 %   60 %   75 %   90 %  all
    arrivals by rewrite     any    4      1      1/4   1/20
    =====================  =====  =====  =====  =====  ======

So who sends faster than the rewrite works is held at about three quarters, at the rewrite's own
rate: slower before the buffer is full, and not stopped when it is. It goes below that rate because
a round frees all that it has rewritten at its end, and what comes meanwhile must find room. That
the writer stops without a segment stays the last line, for when the rewrite stands still.

What the rewrite does in a second is measured by the segments that it frees, and taken for less
while a round takes longer than that. The pause is owed for what was written, less the time that
the writing took, so that it does not matter how that was cut into batches.
"""

from typing import Final

#: What the rewrite aims at, and is taken for as long as it was not measured.
BYTES_PER_SECOND: Final = 120 << 20
#: From this share of the segments on, arrivals are slowed.
START_SHARE: Final = 0.5
#: By the rewrite's rate; never nothing, or a rewrite that was slow once would stop the writer.
LEAST_RATE: Final = 1 / 20
#: Less is not worth a pause, and is owed; more is not owed, so that a stop is not late.
PAUSE_MIN_S: Final = 0.001
PAUSE_MAX_S: Final = 1.0


def allowed(used_share: float, bytes_per_second: float) -> float | None:
    """Give the bytes that may arrive in a second; None: any number."""
    if used_share <= START_SHARE:
        return None
    used = (used_share - START_SHARE) / (1 - START_SHARE)
    return bytes_per_second * max(LEAST_RATE, (1 - used) / used)


class RewritePace:
    """What one rewrite does in a second, and what its writer owes."""

    def __init__(self) -> None:
        #: By the last round: of one that is many times slower than the others, there is no time to
        #: make sure.
        self._measured: float = BYTES_PER_SECOND
        #: What the round under way will free, and when it began.
        self._round: tuple[int, float] | None = None
        #: When the writer may go on.
        self._due_s = 0.0

    def begin_round(self, size_bytes: int, now_s: float) -> None:
        """Note that the rewrite begins to free so much."""
        self._round = (size_bytes, now_s)

    def end_round(self, now_s: float) -> None:
        """Note that it is free."""
        assert self._round is not None, "it was begun"
        size_bytes, begun_s = self._round
        if now_s > begun_s:
            self._measured = size_bytes / (now_s - begun_s)
        self._round = None

    def bytes_per_second(self, now_s: float) -> float:
        """Give what the rewrite does; a round that is overdue does less than was measured."""
        if self._round is None:
            return self._measured
        size_bytes, begun_s = self._round
        return size_bytes / max(now_s - begun_s, size_bytes / self._measured)

    def pause_s(self, begun_s: float, now_s: float, *, used_share: float, size_bytes: int) -> float:
        """Say how long to wait when so many bytes, begun then, are written; 0: not at all."""
        rate = allowed(used_share, self.bytes_per_second(now_s))
        if rate is None:
            self._due_s = now_s
            return 0.0
        due_s = max(self._due_s, begun_s) + size_bytes / rate
        self._due_s = min(due_s, now_s + PAUSE_MAX_S)
        owed_s = self._due_s - now_s
        return owed_s if owed_s >= PAUSE_MIN_S else 0.0
