"""The pace: how fast entries may arrive while the rewrite lags behind. Pure.

The arrival segments are a buffer between the writers and the rewrite. While at most half of them
are in use, appends are not slowed. So bursts, and writers that append little, pay nothing. In the
second half, arrivals are allowed at the rewrite's rate times (unused share of that half) / (used
share of that half), and at least at 1/20 of the rewrite's rate:

    =====================  =====  =====  =====  =====  ======
    segments in use         50 %   60 %   75 %   90 %  all
    arrivals by rewrite     any    4      1      1/4   1/20
    =====================  =====  =====  =====  =====  ======

So if entries come faster than the rewrite works, about three quarters of the segments are in use,
and entries arrive at the rewrite's own rate. They are slowed before the buffer is full, and not
stopped when it is. The rate goes below the rewrite's, because a round frees its segments only at
its end, and entries that arrive meanwhile need room. If the rewrite stands still, the log still
stops when there is no segment left.

The rewrite's rate is measured by the segments that it frees. While a round takes longer than the
measured rate predicts, a lower rate is assumed. The pause is due for the bytes that were written,
less the time that the writing took. So it does not depend on how the bytes were cut into batches.
"""

from typing import Final

#: The rate that the rewrite aims at. It is assumed until a rate was measured.
BYTES_PER_SECOND: Final = 120 << 20
#: Arrivals are slowed when more than this share of the segments is in use.
START_SHARE: Final = 0.5
#: The least rate of arrivals, as a share of the rewrite's rate. It is not 0, because then one slow
#: rewrite would stop the log.
LEAST_RATE: Final = 1 / 20
#: A shorter pause is not made; it is added to the next one.
PAUSE_MIN_S: Final = 0.001
#: The longest pause, so that a stop of the bookie is not late. The rest is not made up for.
PAUSE_MAX_S: Final = 1.0


def allowed(used_share: float, bytes_per_second: float) -> float | None:
    """Give the bytes that may arrive in a second; None: any number."""
    if used_share <= START_SHARE:
        return None
    used = (used_share - START_SHARE) / (1 - START_SHARE)
    return bytes_per_second * max(LEAST_RATE, (1 - used) / used)


class RewritePace:
    """The rate of one rewrite, and the pause that is due."""

    def __init__(self) -> None:
        #: The rate of the last round alone. If it was many times slower than the others, there is
        #: no time to wait for a second one.
        self._measured: float = BYTES_PER_SECOND
        #: The bytes that the round under way will free, and the time when it began.
        self._round: tuple[int, float] | None = None
        #: The time at which the log may go on.
        self._due_s = 0.0

    def begin_round(self, size_bytes: int, now_s: float) -> None:
        """Note that the rewrite begins a round that will free ``size_bytes``."""
        self._round = (size_bytes, now_s)

    def end_round(self, now_s: float) -> None:
        """Note that the round has freed its bytes."""
        assert self._round is not None, "it was begun"
        size_bytes, begun_s = self._round
        if now_s > begun_s:
            self._measured = size_bytes / (now_s - begun_s)
        self._round = None

    def bytes_per_second(self, now_s: float) -> float:
        """Give the rewrite's rate; while a round is overdue, it is less than the measured rate."""
        if self._round is None:
            return self._measured
        size_bytes, begun_s = self._round
        return size_bytes / max(now_s - begun_s, size_bytes / self._measured)

    def pause_s(self, begun_s: float, now_s: float, *, used_share: float, size_bytes: int) -> float:
        """Give the pause after ``size_bytes`` whose writing began at ``begun_s``; 0: no pause."""
        rate = allowed(used_share, self.bytes_per_second(now_s))
        if rate is None:
            self._due_s = now_s
            return 0.0
        due_s = max(self._due_s, begun_s) + size_bytes / rate
        self._due_s = min(due_s, now_s + PAUSE_MAX_S)
        owed_s = self._due_s - now_s
        return owed_s if owed_s >= PAUSE_MIN_S else 0.0
