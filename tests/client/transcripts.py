"""A writer's core, spoken to by hand."""

from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.writer_core import WriterCore
from zonekeeper.client.writing.writer_start import WriterLimits, WriterStart
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import entries, errors
from zonekeeper.wire.formats.frames import Frame

SEALER = entries.Sealer(LedgerId(7), Digest.CRC32C, b"")
THREE = Quorums(ensemble=3, write=3, ack=2)
LIMITS = WriterLimits(budget_bytes=64 << 20, add_timeout_ms=60_000)


def bookies(names: str) -> tuple[BookieId, ...]:
    return tuple(BookieId(name) for name in names)


class Transcript:
    """Events in, effects out, by the names of bookies; each bookie stands in its own zone."""

    def __init__(
        self,
        names: str = "ABC",
        quorums: Quorums = THREE,
        limits: WriterLimits | None = None,
        start: WriterStart | None = None,
    ) -> None:
        ensemble = bookies(names)
        self.core = WriterCore(
            SEALER,
            quorums,
            start
            or WriterStart(
                fragment_first=EntryId(0),
                ensemble=ensemble,
                zones=tuple(ZoneName(name) for name in names),
            ),
            limits or LIMITS,
        )
        self.effects: list[ev.Effect] = []
        #: Every term that was ever opened, and its bookie.
        self.terms: dict[ev.Term, BookieId] = {}

    def feed(self, event: ev.Event) -> list[ev.Effect]:
        effects = self.core.handle(event)
        self.effects += effects
        for effect in effects:
            if isinstance(effect, ev.OpenLane):
                self.terms[effect.term] = effect.bookie
        return effects

    def term(self, name: str) -> ev.Term:
        """Give a bookie's latest lane."""
        return max(term for term, who in self.terms.items() if who == name)

    def take(self, *payloads: bytes, now_ms: int = 0) -> list[ev.Effect]:
        return self.feed(ev.Taken(payloads=payloads or (b"x",), now_ms=now_ms))

    def opened(self, names: str) -> None:
        for name in names:
            self.feed(ev.LaneOpened(term=self.term(name)))

    def ack(self, name: str, first: int, term: ev.Term | None = None) -> list[ev.Effect]:
        """An ack, in the latest lane if no other is named."""
        where = self.term(name) if term is None else term
        return self.feed(ev.BatchAcked(term=where, first=EntryId(first)))

    def fail(
        self, name: str, first: int, error: errors.ProtocolError | None = None
    ) -> list[ev.Effect]:
        return self.feed(
            ev.Failed(
                term=self.term(name),
                first=EntryId(first),
                error=error or errors.Timeout("too late"),
            )
        )

    def changed(self, names: str) -> list[ev.Effect]:
        zones = tuple(ZoneName(name) for name in names)
        return self.feed(ev.Changed(ensemble=bookies(names), zones=zones))

    @property
    def confirmed(self) -> list[int]:
        return [effect.last for effect in self.effects if isinstance(effect, ev.Confirmed)]

    @property
    def changes(self) -> list[ev.ChangeEnsemble]:
        return [effect for effect in self.effects if isinstance(effect, ev.ChangeEnsemble)]

    @property
    def stop(self) -> ev.Stop | None:
        return next((effect for effect in self.effects if isinstance(effect, ev.Stop)), None)

    def sent(self, name: str) -> list[Frame]:
        """Everything that was ever put into a bookie's lanes."""
        return [
            frame
            for effect in self.effects
            if isinstance(effect, ev.Send) and self.terms[effect.term] == name
            for _, frame in effect.frames
        ]


def started(
    names: str = "ABC", quorums: Quorums = THREE, limits: WriterLimits | None = None
) -> Transcript:
    """A writer with one batch under way on open lanes."""
    talk = Transcript(names, quorums, limits)
    talk.take()
    talk.opened(names)
    return talk
