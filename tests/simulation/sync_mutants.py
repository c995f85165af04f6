"""Planted bugs of deferred sync, and of the LAC that is told: what readers may count on."""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.simulation.patching import Patch
from tests.simulation.planting import Mutant
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.client.sessions.opened_lanes import OpenedLane
from zonekeeper.client.sessions.write_session import WriteSession
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.flight import Flight
from zonekeeper.client.writing.lac_telling import LacTelling
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.proofs import Shown


def _forces_do_not_sync() -> Sequence[Patch]:
    async def force(self: BookieServer, ledger_id: LedgerId, key: Shown | None = None) -> None:
        del self, ledger_id

    return [(BookieServer, "force", force)]


def _written_counts_as_forced() -> Sequence[Patch]:
    original = Flight.ack

    def ack(self: Flight, first: EntryId, position: int, *, deferred: bool) -> bool:
        del deferred
        return original(self, first, position, deferred=False)

    return [(Flight, "ack", ack)]


def _any_start_will_do() -> Sequence[Patch]:
    async def force(self: WriteSession, wanted: ev.Force, to: OpenedLane) -> None:
        try:
            link = await self._bookies.pool.link(to.bookie)
            await link.force(self._identity.ledger_id)
        except errors.ProtocolError as error:
            self.feed(ev.ForceFailed(term=wanted.term, error=error))
        else:
            self.feed(ev.Forced(term=wanted.term, upto=wanted.upto))

    return [(WriteSession, "_force", force)]


def _nobody_is_told() -> Sequence[Patch]:
    def outcome(self: LacTelling) -> list[ev.Effect]:
        told, self._wanted = self._wanted, NO_ENTRY
        return [] if told == NO_ENTRY else [ev.LacKnown(last=told)]

    return [(LacTelling, "outcome", outcome)]


SYNC_MUTANTS: Final[Mapping[int, Mutant]] = {
    number: Mutant(
        number=number, what=what, profile="deferred", within_seeds=within, patches=patches
    )
    for number, what, within, patches in (
        (27, "a force does not sync", 100, _forces_do_not_sync),
        (28, "what is written counts as forced", 100, _written_counts_as_forced),
        (46, "a force counts in whatever start it was", 1_000, _any_start_will_do),
        (29, "a LAC counts as told when nobody knows it", 1_000, _nobody_is_told),
    )
}
