"""What happened to a shared list that many append to, and whether that could be.

Every append has a token of its own, and a value of the register is the list of all tokens so far.
So the last value is the order in which the appends took effect, and each claim of the history can
be checked against it: this is linearizability of a register under compare-and-set, decided in one
pass instead of by search.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


class Outcome(enum.StrEnum):
    """What the caller was told."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Times are on one clock for all processes; ``ended`` of an unknown one is never."""

    token: str
    began: int
    ended: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A read that asked for the present state."""

    seen: tuple[str, ...]
    began: int
    ended: int


def violations(
    appends: Iterable[Append], reads: Iterable[Read], last: tuple[str, ...]
) -> list[str]:
    """Name each thing that cannot be; ``last`` is the value at the end."""
    known = {append.token: append for append in appends}
    reads = list(reads)
    return [
        *_miscounted(known, last),
        *(f"read {list(r.seen)}: never was" for r in reads if r.seen != last[: len(r.seen)]),
        *_out_of_order(known, reads, last),
    ]


def _miscounted(known: dict[str, Append], last: tuple[str, ...]) -> Iterator[str]:
    counts = Counter(last)
    for token, count in counts.items():
        if token not in known:
            yield f"{token}: nobody wrote it"
        elif known[token].outcome is Outcome.NO:
            yield f"{token}: there, though it was refused"
        if count > 1:
            yield f"{token}: applied {count} times"
    for token, append in known.items():
        if append.outcome is Outcome.YES and token not in counts:
            yield f"{token}: acknowledged and lost"


def _out_of_order(
    known: dict[str, Append], reads: list[Read], last: tuple[str, ...]
) -> Iterator[str]:
    """Whatever ended before something began must not take effect after it."""
    place = {token: index + 1 for index, token in enumerate(last)}
    # Began, ended, the length of the list that it found, and the length that it proves.
    claims = [(r.began, r.ended, len(r.seen), len(r.seen), "a read") for r in reads]
    claims += [
        (append.began, append.ended, place[token] - 1, place[token], token)
        for token, append in known.items()
        if token in place and append.outcome is Outcome.YES
    ]
    ended = sorted(claims, key=lambda claim: claim[1])
    proved, proof, next_ended = 0, "", 0
    for began, _, found, _, name in sorted(claims):
        while ended[next_ended][1] < began:
            if ended[next_ended][3] > proved:
                proved, proof = ended[next_ended][3:]
            next_ended += 1
        if found < proved:
            yield f"{name}: began after {proof} ended, and took effect before it"
