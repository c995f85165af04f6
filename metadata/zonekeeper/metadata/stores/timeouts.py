"""How long a store waits for what: the same words in every store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits, each in milliseconds."""

    #: A session that is not heard of for so long is over, and its ephemeral nodes with it.
    session_ms: int = 10_000
    #: A call without an answer after so long is given up.
    request_ms: int = 10_000

    def __post_init__(self) -> None:
        if self.session_ms <= 0 or self.request_ms <= 0:
            raise ValueError(f"a store's time limits are positive: {self}")
