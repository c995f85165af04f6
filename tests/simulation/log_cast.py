"""Who has to do with the log of a simulated world, by name."""

from typing import Final

#: Beside the writers.
READERS: Final = 2
OTHERS: Final = ("log-trimmer-0", "log-fencer-0")


def names(writers: int) -> list[str]:
    """Give the names of all actors; no writer: there is no log."""
    if not writers:
        return []
    return [
        *(f"log-writer-{number}" for number in range(writers)),
        *(f"log-reader-{number}" for number in range(READERS)),
        *OTHERS,
    ]
