"""Questions of the page that cost a walk over all ledgers: one at a time, and remembered.

A page asks again and again until an answer is there; no request waits. However many pages ask, a
question is worked on once. While ``ANSWERS_MAX`` questions wait, no other one is taken; the page is
told to ask again. An answer stays fresh for ``FRESH_MS``, and for ten times as long as it took, so
that a page that is left open costs at most a tenth of the time. An old answer is given, with its
age, while a new one is made.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.placement.base.troubles import Trouble

FRESH_MS: Final = 20_000
#: At most so many answers are remembered: the newest.
ANSWERS_MAX: Final = 64
#: A question that takes longer is given up.
TIMEOUT_MS: Final = 900_000
_SHARE: Final = 10

#: What is asked: a name, and of what (a zone, a bookie, a first ledger); empty: the cluster.
Errand = tuple[str, str]
Work = Callable[[Callable[[int], None]], Awaitable[Mapping[str, object]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrandAnswer:
    """How far an errand is, and its last answer."""

    #: A new answer is being made.
    under_way: bool = False
    #: How many ledgers were looked at so far.
    looked_at: int = 0
    result: Mapping[str, object] | None = None
    #: Wall time of the result.
    as_of_ms: int | None = None
    #: Why the last attempt gave no result; empty: it gave one.
    trouble: str = ""
    #: The time from which on a new answer is made.
    fresh_until_ms: int = 0


class Errands:
    """Answers questions in their order; ``wall_ms`` gives the wall time."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._answers: dict[Errand, ErrandAnswer] = {}
        self._waiting: dict[Errand, Work] = {}
        self._asked = asyncio.Event()

    def ask(self, errand: Errand, work: Work | None) -> ErrandAnswer:
        """Give what is known, and have it made anew if it is old; without ``work`` it is not."""
        known = self._answers.get(errand, ErrandAnswer())
        if work is not None and not known.under_way and self._wall_ms() >= known.fresh_until_ms:
            if len(self._waiting) >= ANSWERS_MAX:
                return replace(known, trouble="too many questions wait: ask again in a while")
            known = replace(known, under_way=True, looked_at=0)
            self._keep(errand, known)
            self._waiting[errand] = work
            self._asked.set()
        return known

    async def run(self) -> None:
        """Work until cancelled; what was waited for is then not under way any more."""
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                while self._waiting:
                    errand = next(iter(self._waiting))
                    await self._work(errand, self._waiting.pop(errand))
        finally:
            self._waiting.clear()
            for errand, known in self._answers.items():
                self._answers[errand] = replace(known, under_way=False)

    async def _work(self, errand: Errand, work: Work) -> None:
        def counted(number: int) -> None:
            if errand in self._answers:
                self._answers[errand] = replace(self._answers[errand], looked_at=number)

        begun_ms = self._wall_ms()
        known = self._answers.get(errand, ErrandAnswer())
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                result = await work(counted)
        except (Trouble, OSError) as error:  # TimeoutError is an OSError
            known = replace(known, trouble=str(error) or type(error).__name__)
        else:
            known = replace(known, result=result, as_of_ms=self._wall_ms(), trouble="")
        now_ms = self._wall_ms()
        fresh_ms = max(FRESH_MS, _SHARE * (now_ms - begun_ms))
        self._keep(errand, replace(known, under_way=False, fresh_until_ms=now_ms + fresh_ms))

    def _keep(self, errand: Errand, answer: ErrandAnswer) -> None:
        self._answers.pop(errand, None)
        self._answers[errand] = answer
        for old in list(self._answers):
            if len(self._answers) <= ANSWERS_MAX:
                break
            if not self._answers[old].under_way:
                del self._answers[old]
