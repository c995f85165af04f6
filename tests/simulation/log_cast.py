"""Who has to do with the log of a simulated world, by name."""

from typing import Final

NAME: Final = "simulated/log"
#: That of all consumers: they take it from each other.
CURSOR: Final = "consumers"

#: Beside the writers.
OTHERS: Final = (
    "log-reader-0",
    "log-consumer-0",
    "log-consumer-1",
    "log-owner-0",
    "log-fencer-0",
    "log-keeper-0",
)


def names(writers: int, queries: int = 0) -> list[str]:
    """Give the names of all actors; no writer: there is no log. Beside queries none consumes."""
    if not writers:
        return []
    others = [one for one in OTHERS if not (queries and one.startswith("log-consumer"))]
    return [
        *(f"log-writer-{number}" for number in range(writers)),
        *(f"log-query-{number}" for number in range(queries)),
        *others,
    ]
