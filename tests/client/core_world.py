"""A writer's core against the worst that lanes, bookies and metadata can do, step by step.

``CoreWorld`` plays everything outside the core: bookies that store or fail, lanes that end, changes
of metadata that take their time, acknowledgements that come late from lanes that were given up. At
every step some of those things may happen; a ``choose`` function says which. After each step the
invariants are checked against what the bookies really hold and what metadata really shows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.client.transcripts import LIMITS
from zonekeeper.client.base import errors as client_errors
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.writer_core import WriterCore
from zonekeeper.client.writing.writer_start import WriterStart
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Enough, Quorums
from zonekeeper.wire.formats import entries, errors

LEDGER = LedgerId(7)
SEALER = entries.Sealer(LEDGER, Digest.CRC32C, b"")
ZONES = "abc"

Choose = Callable[[int], int]


def bookie(number: int) -> BookieId:
    return BookieId(f"bk-{ZONES[number % 3]}-{number // 3}")


def zone(bookie_id: BookieId) -> ZoneName:
    return ZoneName(bookie_id.split("-")[1])


@dataclass
class Put:
    """Part of a batch on its way to a bookie, or there and its answer on the way back."""

    term: ev.Term
    bookie: BookieId
    #: The batch, by its first entry; None: a LAC.
    first: EntryId | None
    ids: tuple[EntryId, ...]
    lac: EntryId = NO_ENTRY

    def acked(self) -> ev.LaneEvent:
        if self.first is None:
            return ev.LacAcked(term=self.term, lac=self.lac)
        return ev.BatchAcked(term=self.term, first=self.first)

    def failed(self, error: errors.ProtocolError) -> ev.LaneEvent:
        if self.first is None:
            return ev.LacFailed(term=self.term, lac=self.lac, error=error)
        return ev.Failed(term=self.term, first=self.first, error=error)


class CoreWorld:
    """One writer and all that it can meet."""

    def __init__(
        self,
        quorums: Quorums,
        choose: Choose,
        *,
        batches: tuple[int, int],
        failures: int,
        bookies: int = 9,
        deferred: bool = False,
    ) -> None:
        self.quorums = quorums
        self.choose = choose
        #: How many, and of how many entries each.
        self.batches, self.batch_entries = batches
        self.failures = failures
        self.everybody = [bookie(number) for number in range(bookies)]
        ensemble = tuple(self.everybody[: quorums.ensemble])
        self.fragments: list[tuple[EntryId, tuple[BookieId, ...]]] = [(EntryId(0), ensemble)]
        self.core = WriterCore(
            SEALER,
            quorums,
            WriterStart(
                fragment_first=EntryId(0),
                ensemble=ensemble,
                zones=tuple(map(zone, ensemble)),
                deferred=deferred,
            ),
            LIMITS,
        )
        self.deferred = deferred
        #: May bookies say that they do not know the ledger? And is metadata being looked at?
        self.disowning = False
        #: How often lanes may be wanted before there is anything to send.
        self.wishes = 0
        self.looking = False
        #: Deferred sync: what bookies may lose with their lanes; and what they are to sync,
        #: with what they had written when they were asked.
        self.volatile: dict[ev.Term, set[EntryId]] = {}
        self.forces: list[tuple[ev.Force, frozenset[EntryId]]] = []
        self.wanted = EntryId(-1)
        self.stored: dict[BookieId, set[EntryId]] = {who: set() for who in self.everybody}
        self.opening: dict[ev.Term, BookieId] = {}
        self.lanes: dict[ev.Term, BookieId] = {}
        self.puts: list[Put] = []
        self.change: ev.ChangeEnsemble | None = None
        self.confirmed = EntryId(-1)
        self.released = 0
        self.taken = 0
        self.stop: ev.Stop | None = None
        self.now_ms = 0

    # ── one step ──

    def moves(self) -> list[Callable[[], None]]:
        """Everything that may happen now."""
        moves: list[Callable[[], None]] = []
        if self.taken < self.batches and self.core.room:
            moves.append(self.take)
        if self.wishes:
            moves.append(self.want_lanes)
        for term in self.opening:
            moves.append(partial(self.opened, term))
        for index in range(len(self.puts)):
            moves.append(partial(self.answered, index))
        if self.change is not None:
            moves.append(self.changed)
        if self.looking:
            moves.append(self.stands)
        if self.deferred and self.core.written > self.wanted:
            moves.append(self.want)
        for index in range(len(self.forces)):
            moves.append(partial(self.synced, index))
            if self.failures:
                moves.append(partial(self.not_synced, index))
        return moves + self.failing_moves() if self.failures else moves

    def failing_moves(self) -> list[Callable[[], None]]:
        """Everything that may fail now, beside forces."""
        moves: list[Callable[[], None]] = []
        for term in self.opening:
            moves.append(partial(self.not_opened, term))
            if self.disowning:
                moves.append(partial(self.disowned, term))
        for index, put in enumerate(self.puts):
            if put.term in self.lanes:
                for kind in (errors.Timeout, errors.ConnectionLost):
                    moves.append(partial(self.failed, index, kind))
        if self.looking:
            moves.append(self.in_doubt)
        return moves

    def step(self) -> bool:
        """Let one thing happen; False: nothing can."""
        moves = self.moves()
        if not moves or self.stop is not None:
            return False
        moves[self.choose(len(moves))]()
        self.check()
        return True

    def run(self, steps: int) -> None:
        """Let so many things happen, then let everything come to its end without failures."""
        for _ in range(steps):
            if not self.step():
                return
        self.failures = 0
        for _ in range(10_000):
            if not self.step():
                if self.stop is not None or not self.core.waits:
                    break
                self.tick(600)
        assert self.stop is not None or self.confirmed + 1 == self.batches * self.batch_entries

    def tick(self, more_ms: int) -> None:
        self.now_ms += more_ms
        self.feed(ev.Ticked(now_ms=self.now_ms))
        self.check()

    # ── what may happen ──

    def take(self) -> None:
        self.taken += 1
        payloads = [b"x" * (n % 3) for n in range(self.batch_entries)]
        self.feed(ev.Taken(payloads=payloads, now_ms=self.now_ms))

    def want_lanes(self) -> None:
        self.wishes -= 1
        self.feed(ev.LanesWanted())

    def opened(self, term: ev.Term) -> None:
        self.lanes[term] = self.opening.pop(term)
        self.feed(ev.LaneOpened(term=term))

    def not_opened(self, term: ev.Term) -> None:
        self.failures -= 1
        del self.opening[term]
        self.feed(ev.LaneRefused(term=term, error=errors.NotConnected("nobody there")))

    def disowned(self, term: ev.Term) -> None:
        """A bookie says that it does not know the ledger any more."""
        self.failures -= 1
        del self.opening[term]
        self.feed(ev.LaneRefused(term=term, error=errors.LedgerDeleted("not known")))

    def stands(self) -> None:
        """Metadata shows the ledger."""
        self.looking = False
        self.feed(ev.LedgerStands())

    def in_doubt(self) -> None:
        """The metadata store gives no answer."""
        self.failures -= 1
        self.looking = False
        self.feed(
            ev.LedgerUnknown(
                error=client_errors.MetadataFailed("no answer", retryable=True, maybe_applied=False)
            )
        )

    def answered(self, index: int) -> None:
        """A bookie stores what it was sent, and its ack arrives; late, if the lane was given up."""
        put = self.puts.pop(index)
        kept = self.volatile.setdefault(put.term, set()) if self.deferred else None
        (self.stored[put.bookie] if kept is None else kept).update(put.ids)
        self.feed(put.acked())

    def failed(self, index: int, kind: type[errors.ProtocolError]) -> None:
        """A lane fails: it may or may not have stored; a lost one fails for all that is in it."""
        self.failures -= 1
        term = self.puts[index].term
        if kind is errors.ConnectionLost:
            doomed = [put for put in self.puts if put.term == term]
            self.lanes.pop(term, None)
            self.volatile.pop(term, None)
        else:
            doomed = [self.puts[index]]
        for put in doomed:
            self.puts.remove(put)
            if self.choose(2):
                self.stored[put.bookie].update(put.ids)
            self.feed(put.failed(kind("trouble")))

    def want(self) -> None:
        """The application wants all that is written on disk."""
        self.wanted = self.core.written
        self.feed(ev.ForceWanted(upto=self.wanted))

    def synced(self, index: int) -> None:
        """A bookie syncs what it had written in a lane; if that is lost, so is the lane."""
        force, had = self.forces.pop(index)
        if force.term in self.lanes:
            self.stored[self.lanes[force.term]] |= had
        self.feed(ev.Forced(term=force.term, upto=force.upto))

    def not_synced(self, index: int) -> None:
        """A bookie loses power instead."""
        self.failures -= 1
        force, _ = self.forces.pop(index)
        self.volatile.pop(force.term, None)
        error = errors.ConnectionLost("it was started again")
        self.feed(ev.ForceFailed(term=force.term, error=error))

    def changed(self) -> None:
        """Metadata takes the new ensemble, or cannot, if no bookie is left."""
        wanted, self.change = self.change, None
        assert wanted is not None
        first, ensemble = self.fragments[-1]
        free = [who for who in self.everybody if who not in ensemble]
        if len(free) < len(wanted.failed):
            self.feed(ev.ChangeImpossible(error=client_errors.NotEnoughBookies("none left")))
            return
        members = list(ensemble)
        for position, who in wanted.failed:
            assert members[position] == who
            members[position] = free.pop(self.choose(len(free)))
        assert wanted.first_entry >= first
        if wanted.first_entry == first:
            self.fragments.pop()
        self.fragments.append((wanted.first_entry, tuple(members)))
        self.feed(ev.Changed(ensemble=tuple(members), zones=tuple(map(zone, members))))

    # ── the shell's part ──

    def feed(self, event: ev.Event) -> None:
        for effect in self.core.handle(event):
            self.perform(effect)

    def perform(self, effect: ev.Effect) -> None:
        match effect:
            case ev.OpenLane():
                assert effect.ensemble == self.fragments[-1][1]
                self.opening[effect.term] = effect.bookie
            case ev.CloseLane():
                self.lanes.pop(effect.term, None)
            case ev.Send():
                for first, frame in effect.frames:
                    who = self.lanes[effect.term]
                    ids = tuple(frame.entry_ids)
                    self.puts.append(Put(effect.term, who, first, ids))
            case ev.SendLac():
                who = self.lanes[effect.term]
                self.puts.append(Put(effect.term, who, None, (), effect.confirmed))
            case ev.ChangeEnsemble():
                assert self.change is None, "one change at a time"
                assert effect.first_entry == self.confirmed + 1
                self.change = effect
            case ev.LookUpLedger():
                assert not self.looking, "one look at a time"
                self.looking = True
            case ev.Confirmed():
                assert self.change is None, "nothing is confirmed during a change"
                assert effect.last > self.confirmed
                self.confirmed = effect.last
            case ev.Released():
                self.released += effect.size_bytes
            case ev.Force():
                assert effect.term in self.lanes
                had = frozenset(self.volatile.get(effect.term, ()))
                self.forces.append((effect, had))
            case ev.Suspect() | ev.EntriesWritten() | ev.LacKnown() | ev.LacUntold():
                pass
            case ev.Stop():
                self.stop = effect

    # ── invariants ──

    def check(self) -> None:
        """I5, I8, I11: what is confirmed is on an ack quorum of the ensemble that is shown."""
        for number in range(self.confirmed + 1):
            entry_id = EntryId(number)
            ensemble = self.ensemble_of(entry_id)
            holders = [
                zone(ensemble[position])
                for position in self.quorums.write_set(entry_id)
                if entry_id in self.stored[ensemble[position]]
            ]
            assert self.quorums.suffice(holders) is Enough.YES, (
                f"entry {entry_id} is confirmed, and of {ensemble} only {holders} hold it"
            )

    def ensemble_of(self, entry_id: EntryId) -> tuple[BookieId, ...]:
        return next(e for first, e in reversed(self.fragments) if first <= entry_id)
