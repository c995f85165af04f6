"""The time limits of a store: the same names for every store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits, each in milliseconds."""

    #: A session that is silent for this long ends, and its ephemeral nodes with it.
    session_ms: int = 10_000
    #: A call without an answer for this long is given up.
    request_ms: int = 10_000
    #: A store that gives no first session within this is given up; None: ``request_ms``.
    reach_ms: int | None = None

    @property
    def first_ms(self) -> int:
        """The limit for reaching the store."""
        return self.request_ms if self.reach_ms is None else self.reach_ms

    def __post_init__(self) -> None:
        if min(self.session_ms, self.request_ms, self.first_ms) <= 0:
            raise ValueError(f"a store's time limits are positive: {self}")
