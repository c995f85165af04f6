"""The time limits of a store: the same names for every store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits, each in milliseconds."""

    #: A session that is silent for this long ends, and its ephemeral nodes with it.
    session_ms: int = 10_000
    #: A call without an answer for this long is given up.
    request_ms: int = 10_000

    def __post_init__(self) -> None:
        if self.session_ms <= 0 or self.request_ms <= 0:
            raise ValueError(f"a store's time limits are positive: {self}")
