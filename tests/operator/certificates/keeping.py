"""Certificates that are kept by the reading, deciding and issuing of a turn, without the rest.

A life has many calls, and an operator may die in each of them: a whole world for each would take
minutes.
"""

from typing import Final

from tests.operator.resources import resource
from zonekeeper.operator.certificates import reading, renewing, secret_data, subjects
from zonekeeper.operator.certificates.issuing import Issuer
from zonekeeper.operator.certificates.renewing import IssuingTime
from zonekeeper.operator.certificates.sights import CertificateSight
from zonekeeper.operator.cluster import desired, tls_parts
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.placement.base import units
from zonekeeper.placement.base.troubles import Trouble

INSTANCE: Final = "0d6e3a1e-0000-4000-8000-000000000001"
_WALL_MS: Final = 1_767_323_045_000
#: More time than a rotation waits.
_IDLE_MS: Final = 2 * units.SECOND_MS


class Keeping:
    """One resource's certificates, and an operator that keeps them."""

    def __init__(self, **tls: object) -> None:
        self.kubernetes = MemoryKubernetes()
        self.resource = resource(tls=tls) | {"status": {"instance": INSTANCE}}
        self.word = ""
        self.now_ms = 0
        #: The time from one turn to the next.
        self.step_ms = 500
        self._seen: CertificateSight | None = None

    def restart(self) -> None:
        """Let another operator take over."""
        self._seen = None

    async def turn(self) -> None:
        """Do one turn; an act that fails ends it."""
        self.now_ms += self.step_ms
        wanted = desired.read(self.resource)
        assert isinstance(wanted, Desired), wanted
        found = await reading.look(self.kubernetes, wanted, self.resource)
        seen = renewing.followed(self._seen, found, now_ms=self.now_ms)
        steps = renewing.decide(
            tls_parts.authority_name(wanted.name),
            subjects.all_of(wanted, INSTANCE, {}),
            seen,
            wanted.tls,
            IssuingTime(wall_ms=_WALL_MS + self.now_ms, made_ms=_WALL_MS, word=self.word),
        )
        self._seen = seen
        try:
            for step in steps:
                await Issuer(self.kubernetes).perform(step, self.resource)
        except Trouble:
            return  # it is told, and the next turn looks again

    async def rest(self) -> None:
        """Let turns come until nothing is left to be done."""
        before, idle_ms = None, 0
        while idle_ms < _IDLE_MS:
            try:
                await self.turn()
            except Trouble:
                continue  # the loop around a turn goes on, too
            after = self._seen and (self._seen.authority, self._seen.leaves)
            idle_ms, before = idle_ms + self.step_ms if after == before else 0, after
            assert self.now_ms < units.HOUR_MS, "it does not come to rest"

    def rotate(self, word: str) -> None:
        """Ask for another authority."""
        self.resource["metadata"]["annotations"] = {secret_data.ROTATE: word}
        self.word = word
