"""The writer's own changes in metadata, also in doubt for longer than an update tries (S132), and
behind a store that was set back (S140).

The store is the one in memory. It loses a request, or an answer, and is then not reached any more:
so what it knows of the change is certain, and what the owner can know of it is nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import pytest

from tests.client.api.test_writer import fill, holds
from tests.client.lab import Lab, played
from tests.client.recovery_world import set_back
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors
from zonekeeper.client.sessions.owner import Owner
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.metadata.formats import ledger_metadata
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store import errors as store_errors
from zonekeeper.metadata.store import update
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.topology import Topology
from zonekeeper.wire.formats import errors as wire_errors

#: Longer than an update tries.
TOO_LONG_S = update.DEADLINE_MS / 1_000 + 10
#: Beside an ensemble there is one bookie, in zone a.
ONE_SPARE = {"a": 2, "b": 1, "c": 1}


class Owned:
    """A ledger without a writer, its owner, and the hands of the test."""

    def __init__(self, lab: Lab, client: Client, ledger_id: LedgerId, first: LedgerMetadata):
        self.lab = lab
        self.client = client
        self.ledger_id = ledger_id
        self.first = first
        store = client.cluster.store
        assert isinstance(store, MemoryStore)
        self.store = store
        stamp = client.reading(ledger_id, first).quorums
        self.owner = Owner(client.bookies, ledger_id, stamp, first)

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        return self.first.last_fragment.ensemble

    async def metadata(self) -> LedgerMetadata:
        stored = await ledgers.read(await self.lab.cluster(), self.ledger_id, sync=True)
        assert stored is not None
        return stored.metadata

    async def fragments(self) -> list[tuple[int, tuple[BookieId, ...]]]:
        there = (await self.metadata()).fragments
        return [(fragment.first_entry, fragment.ensemble) for fragment in there]

    async def set(self, change: Callable[[LedgerMetadata], LedgerMetadata | None]) -> None:
        await ledgers.change(await self.lab.cluster(), self.ledger_id, change)

    def wanted(self, *positions: int) -> ev.ChangeEnsemble:
        failed = tuple((at, self.ensemble[at]) for at in positions)
        return ev.ChangeEnsemble(first_entry=EntryId(7), failed=failed)

    def lose(self, loss: ExchangeLoss, *, then: Callable[[], None]) -> None:
        """Lose the next write; ``then`` is called behind it, before it is asked about again."""

        def weather(kind: RequestKind) -> Passage:
            if kind is not RequestKind.WRITE:
                return Passage()
            self.store.weather = lambda kind: Passage()
            asyncio.get_running_loop().call_later(0.001, then)
            return Passage(loss=loss)

        self.store.weather = weather

    def without_spares(self, ensemble: Collection[BookieId] = ()) -> None:
        """Show the owner a cluster in which no bookie is left but the ensemble's."""
        left, bookies = ensemble or self.ensemble, self.client.bookies
        bookies._topology = Topology(one for one in bookies.topology if one.id in left)


@asynccontextmanager
async def owned(lab: Lab) -> AsyncIterator[Owned]:
    async with lab.client() as client:
        writer = await client.create()
        writer.halt()
        yield Owned(lab, client, writer.ledger_id, await client.metadata(writer.ledger_id))


def not_allowed(kind: RequestKind) -> Passage:
    raise store_errors.UnauthorizedError(f"no {kind.value}", store="the test's")


LOSSES = pytest.mark.parametrize("loss", [ExchangeLoss.REQUEST, ExchangeLoss.ANSWER])


# ── replacing members ──


@played()
async def test_failed_members_are_replaced_and_the_others_stay(lab: Lab) -> None:
    async with owned(lab) as made:
        outcome = await made.owner.change(made.wanted(0, 2))

        assert isinstance(outcome, ev.Changed)
        assert outcome.ensemble[1] == made.ensemble[1]
        assert not {made.ensemble[0], made.ensemble[2]} & set(outcome.ensemble)
        assert sorted(str(zone) for zone in outcome.zones) == ["a", "b", "c"]
        assert await made.fragments() == [(0, made.ensemble), (7, outcome.ensemble)]


@LOSSES
@played()
async def test_a_change_whose_answer_is_lost_is_made_once(lab: Lab, loss: ExchangeLoss) -> None:
    async with owned(lab) as made:
        made.lose(loss, then=lambda: None)

        outcome = await made.owner.change(made.wanted(0))

        assert isinstance(outcome, ev.Changed)
        assert await made.fragments() == [(0, made.ensemble), (7, outcome.ensemble)]


@LOSSES
@played()
async def test_s132_a_change_in_doubt_for_a_minute_is_unknown_until_the_store_shows_it(
    lab: Lab, loss: ExchangeLoss
) -> None:
    async with owned(lab) as made:
        made.lose(loss, then=made.store.cut)

        for _ in range(2):
            outcome = await made.owner.change(made.wanted(0))
            assert isinstance(outcome, ev.ChangeUnknown), outcome
        applied = await made.fragments()
        assert len(applied) == (2 if loss is ExchangeLoss.ANSWER else 1)

        made.store.mend()
        outcome = await made.owner.change(made.wanted(0))
        assert isinstance(outcome, ev.Changed)
        assert await made.fragments() == [(0, made.ensemble), (7, outcome.ensemble)]
        assert applied in (await made.fragments(), [(0, made.ensemble)])


@played()
async def test_without_newcomers_a_change_is_impossible_and_metadata_is_as_it_was(
    lab: Lab,
) -> None:
    async with owned(lab) as made:
        made.without_spares()

        assert isinstance(await made.owner.change(made.wanted(0)), ev.ChangeImpossible)

        assert await made.fragments() == [(0, made.ensemble)]


@LOSSES
@played(bookies_in=ONE_SPARE)
async def test_s132_without_newcomers_behind_a_doubt_the_change_stays_unknown(
    lab: Lab, loss: ExchangeLoss
) -> None:
    """The write may still be under way: "impossible" would let the writer go on as before."""
    async with owned(lab) as made:
        at = next(at for at, who in enumerate(made.ensemble) if who.startswith("bk-a"))
        made.lose(loss, then=made.store.cut)
        assert isinstance(await made.owner.change(made.wanted(at)), ev.ChangeUnknown)
        made.store.mend()
        everyone = made.client.bookies.topology
        made.without_spares()

        outcome = await made.owner.change(made.wanted(at))

        if loss is ExchangeLoss.ANSWER:
            assert isinstance(outcome, ev.Changed)
            made.client.bookies._topology = everyone
            made.without_spares(outcome.ensemble)
            # What stands is known again: from here on "impossible" is an answer.
            last = ev.ChangeEnsemble(first_entry=EntryId(9), failed=((at, outcome.ensemble[at]),))
            assert isinstance(await made.owner.change(last), ev.ChangeImpossible)
        else:
            assert isinstance(outcome, ev.ChangeUnknown)


@played(bookies_in=ONE_SPARE)
async def test_newcomers_that_go_while_a_change_is_tried_leave_it_unknown(lab: Lab) -> None:
    async with owned(lab) as made:
        at = next(at for at, who in enumerate(made.ensemble) if who.startswith("bk-a"))
        made.lose(ExchangeLoss.REQUEST, then=made.without_spares)

        for _ in range(2):
            assert isinstance(await made.owner.change(made.wanted(at)), ev.ChangeUnknown)


@played()
async def test_a_member_that_is_replaced_already_is_not_replaced_again(lab: Lab) -> None:
    async with owned(lab) as made:
        first = await made.owner.change(made.wanted(0))

        assert await made.owner.change(made.wanted(0)) == first

        assert len(await made.fragments()) == 2


@played()
async def test_what_the_store_does_not_allow_ends_the_writer(lab: Lab) -> None:
    async with owned(lab) as made:
        made.store.weather = not_allowed

        outcome = await made.owner.change(made.wanted(0))

        assert isinstance(outcome, ev.Dispossessed)
        assert isinstance(outcome.error, errors.WriterStopped)
        gone = await made.owner.look_up()
        assert isinstance(gone, ev.LedgerGone)


# ── what others did to the ledger ──


async def is_recovered(made: Owned) -> None:
    await made.set(ledger_metadata.taken_for_recovery)


async def is_closed(made: Owned) -> None:
    def closed(ledger: LedgerMetadata) -> LedgerMetadata:
        return ledger_metadata.closed(ledger, last_entry=EntryId(4), length=40)

    await made.set(closed)


async def is_deleted(made: Owned) -> None:
    async with made.lab.client("other") as other:
        await other.delete(made.ledger_id)


async def is_made_anew(made: Owned) -> None:
    async with made.lab.client("other") as other:
        await other.delete(made.ledger_id)
        (await other.create(ledger_id=made.ledger_id)).halt()


async def is_unreadable(made: Owned) -> None:
    cluster = await made.lab.cluster()
    await cluster.store.put(ledgers.path(cluster, made.ledger_id), b"?", version=0)


@pytest.mark.parametrize(
    ("happens", "kind", "says"),
    [
        (is_recovered, errors.Fenced, "another client recovers it"),
        (is_closed, errors.ClosedByOther, "closed by another client, at entry 4"),
        (is_deleted, errors.ClosedByOther, "was deleted while it was written"),
        (is_made_anew, errors.ClosedByOther, "another ledger was made under its id"),
        (is_unreadable, errors.WriterStopped, "cannot be changed"),
    ],
)
@played()
async def test_a_ledger_that_is_not_the_writers_any_more_ends_it(
    lab: Lab,
    happens: Callable[[Owned], Awaitable[None]],
    kind: type[errors.WriterStopped],
    says: str,
) -> None:
    async with owned(lab) as made:
        assert isinstance(await made.owner.look_up(), ev.LedgerStands)
        await happens(made)
        for outcome in (await made.owner.change(made.wanted(0)), await made.owner.look_up()):
            assert isinstance(outcome, ev.Dispossessed | ev.LedgerGone)
            assert isinstance(outcome.error, kind)
            assert says in str(outcome.error)


@played()
async def test_s132_a_look_while_the_store_is_away_says_that_nothing_is_known(lab: Lab) -> None:
    async with owned(lab) as made:
        made.store.cut()
        assert isinstance(await made.owner.look_up(), ev.LedgerUnknown)


# ── a store that was set back ──


@pytest.mark.parametrize("at", [0, 1])
@played()
async def test_s140_a_change_ends_the_writer_where_the_store_shows_an_older_ensemble(
    lab: Lab, at: int
) -> None:
    """Member 0 was replaced before; now it fails once more, or another member does."""
    async with owned(lab) as made:
        changed = await made.owner.change(made.wanted(0))
        assert isinstance(changed, ev.Changed)
        await set_back(lab, made.ledger_id, made.first)

        failed = ((at, changed.ensemble[at]),)
        outcome = await made.owner.change(ev.ChangeEnsemble(first_entry=EntryId(9), failed=failed))

        assert isinstance(outcome, ev.Dispossessed)
        assert type(outcome.error) is errors.WriterStopped
        assert "the store was set back to an older state" in str(outcome.error)
        assert await made.metadata() == made.first


@LOSSES
@played()
async def test_s140_an_older_ensemble_is_no_attempt_of_unknown_outcome(
    lab: Lab, loss: ExchangeLoss
) -> None:
    async with owned(lab) as made:
        changed = await made.owner.change(made.wanted(0))
        assert isinstance(changed, ev.Changed)
        wanted = ev.ChangeEnsemble(first_entry=EntryId(9), failed=((1, changed.ensemble[1]),))
        made.lose(loss, then=made.store.cut)
        assert isinstance(await made.owner.change(wanted), ev.ChangeUnknown)
        await set_back(lab, made.ledger_id, made.first)
        made.store.mend()

        assert isinstance(await made.owner.change(wanted), ev.Dispossessed)


@played()
async def test_s140_a_ledger_is_not_closed_over_an_older_ensemble(lab: Lab) -> None:
    async with owned(lab) as made:
        await made.owner.change(made.wanted(0))
        await set_back(lab, made.ledger_id, made.first)

        with pytest.raises(errors.WriterStopped, match="was set back") as stopped:
            await made.owner.close(EntryId(9), 90)
        await made.owner.abandon(EntryId(9), 90)

        assert not stopped.value.retryable
        assert await made.metadata() == made.first


@played()
async def test_s140_a_writer_ends_and_says_why_and_its_client_goes_on(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        made = Owned(lab, client, writer.ledger_id, await client.metadata(writer.ledger_id))
        lab.door(writer.ensemble[0]).append_error = wire_errors.ReadOnly("full")
        await fill(writer, 3)
        await writer.flush()
        assert writer.ensemble != made.ensemble
        await set_back(lab, made.ledger_id, made.first)
        lab.door(writer.ensemble[1]).append_error = wire_errors.ReadOnly("full")

        await fill(writer, 3)
        with pytest.raises(errors.WriterStopped, match="was set back to an older state"):
            await writer.flush()

        assert writer.last_confirmed == 2
        await (await client.create()).close()


# ── closing ──


@LOSSES
@played()
async def test_s132_a_closing_in_doubt_for_a_minute_is_told_and_may_be_repeated(
    lab: Lab, loss: ExchangeLoss
) -> None:
    async with owned(lab) as made:
        made.lose(loss, then=made.store.cut)
        with pytest.raises(errors.MetadataFailed) as late:
            await made.owner.close(EntryId(4), 40)
        assert late.value.maybe_applied
        assert late.value.retryable
        assert (await made.metadata()).is_closed is (loss is ExchangeLoss.ANSWER)
        with pytest.raises(errors.MetadataFailed) as unsent:
            await made.owner.close(EntryId(4), 40)
        assert not unsent.value.maybe_applied

        made.store.mend()
        await made.owner.close(EntryId(4), 40)
        there = await made.metadata()
        assert (there.last_entry, there.length) == (4, 40)


@pytest.mark.parametrize(("last", "length"), [(3, 40), (5, 50), (4, 41)])
@played()
async def test_another_end_than_the_writers_is_an_error(lab: Lab, last: int, length: int) -> None:
    async with owned(lab) as made:
        await is_closed(made)
        await made.owner.close(EntryId(4), 40)
        with pytest.raises(errors.ClosedByOther, match="at entry 4 and 40 bytes"):
            await made.owner.close(EntryId(last), length)


@played()
async def test_a_writer_with_every_entry_acknowledged_closes_over_a_recovery(lab: Lab) -> None:
    async with owned(lab) as made:
        await is_recovered(made)
        await made.owner.abandon(EntryId(2), 20)
        assert not (await made.metadata()).is_closed
        await made.owner.close(EntryId(4), 40)
        assert (await made.metadata()).last_entry == 4


@played()
async def test_what_is_abandoned_while_the_store_is_away_is_left_to_a_recovery(lab: Lab) -> None:
    async with owned(lab) as made:
        made.store.cut()
        await made.owner.abandon(EntryId(2), 20)
        assert not (await made.metadata()).is_closed
        made.store.mend()
        await made.owner.abandon(EntryId(2), 20)
        assert (await made.metadata()).last_entry == 2


# ── a whole writer ──


@LOSSES
@played()
async def test_s132_a_writer_acknowledges_nothing_until_the_store_shows_its_ensemble(
    lab: Lab, loss: ExchangeLoss
) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await fill(writer, 3)
        await writer.flush()
        made = Owned(lab, client, writer.ledger_id, await client.metadata(writer.ledger_id))
        made.lose(loss, then=made.store.cut)
        for who in writer.ensemble[:2]:
            lab.door(who).append_error = wire_errors.ReadOnly("full")
        waiting = asyncio.ensure_future(writer.append_and_wait(b"entry 3"))
        await asyncio.sleep(TOO_LONG_S)
        assert not waiting.done(), waiting
        assert writer.last_confirmed == 2

        made.store.mend()
        await waiting
        assert [first for first, _ in await made.fragments()] == [0, 3]
        assert (await made.fragments())[-1][1] == writer.ensemble
        await writer.close()
        await holds(client, writer.ledger_id, 4)
