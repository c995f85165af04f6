"""Under-replicated ledgers: marked, claimed, repaired, released; the switch, and the leader."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from tests.metadata import weather
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import elections, repair_controls
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.elections import Lead, Leadership, Scene, Vote, Wait, Withdraw
from zonekeeper.metadata.cluster.repair_controls import PeriodicCheck
from zonekeeper.metadata.formats.malformed import MalformedError
from zonekeeper.metadata.formats.underreplication_format import Underreplicated
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.ledgers.underreplication import Claim, HeldLock
from zonekeeper.metadata.store.errors import SessionLostError
from zonekeeper.metadata.store.store import Check, Put, SessionId
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind, calm
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import BookieId, LedgerId

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
A, B, C = (BookieId(name) for name in "abc")
ME, YOU = BookieId("me"), BookieId("you")
L7 = LedgerId(7)


async def marked(cluster: Cluster) -> list[int]:
    return [one async for one in underreplication.ids(cluster)]


# ── marks ──


async def test_marking_again_joins_what_is_said_already(cluster: Cluster, other: Cluster) -> None:
    await underreplication.mark(cluster, L7, [A], at_ms=100)
    await underreplication.mark(other, L7, [B, A], at_ms=200)
    mark = await underreplication.read(cluster, L7)
    assert mark == Underreplicated(replicas=(A, B), marked_ms=100)


async def test_many_markers_at_once_lose_nothing(cluster: Cluster, other: Cluster) -> None:
    names = [BookieId(f"b-{number}") for number in range(8)]
    await asyncio.gather(
        *(
            underreplication.mark(one, L7, [name], at_ms=1)
            for name, one in zip(names, [cluster, other] * 4, strict=True)
        )
    )
    mark = await underreplication.read(cluster, L7)
    assert mark is not None
    assert sorted(mark.replicas) == names


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("number", range(7))
async def test_marking_in_doubt_marks_once(
    memory: MemoryPlace, number: int, loss: ExchangeLoss
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    weather.lose(store, number, loss)
    await underreplication.mark(cluster, L7, [A], at_ms=1)
    assert await underreplication.read(cluster, L7) == Underreplicated(replicas=(A,), marked_ms=1)


async def test_marks_are_listed_by_range(cluster: Cluster) -> None:
    ids = [0, 1, 0xFFFF, 0x10000, 2**31, 9 << 32, 2**63 - 1]
    for ledger_id in ids:
        await underreplication.mark(cluster, LedgerId(ledger_id), [A], at_ms=1)
    assert await marked(cluster) == ids
    some = underreplication.ids(cluster, first=LedgerId(1), last=LedgerId(2**31))
    assert [one async for one in some] == [1, 0xFFFF, 0x10000, 2**31]


async def test_a_bookie_that_came_back_is_taken_off(cluster: Cluster) -> None:
    await underreplication.mark(cluster, L7, [A, B], at_ms=1)
    assert await underreplication.unmark(cluster, L7, [A])
    assert await underreplication.read(cluster, L7) == Underreplicated(replicas=(B,), marked_ms=1)
    assert await underreplication.unmark(cluster, L7, [B, C])
    assert await marked(cluster) == []
    assert await cluster.store.children(cluster.root.below("underreplication/ledgers")) == ()
    assert await underreplication.unmark(cluster, L7, [A]), "nothing is left to do"


async def test_a_claimed_mark_is_not_taken_off_under_its_worker(
    cluster: Cluster, other: Cluster
) -> None:
    await underreplication.mark(cluster, L7, [A], at_ms=1)
    claim = await underreplication.claim(other, L7, YOU)
    assert claim is not None
    assert not await underreplication.unmark(cluster, L7, [A])
    await underreplication.release(other, claim)
    assert await underreplication.unmark(cluster, L7, [A])


# ── claims ──


async def test_one_worker_at_a_time_has_a_ledger(cluster: Cluster, other: Cluster) -> None:
    await underreplication.mark(cluster, L7, [A], at_ms=1)
    mine = await underreplication.claim(cluster, L7, ME)
    assert mine is not None
    assert await underreplication.claim(other, L7, YOU) is None
    assert await underreplication.claim(cluster, L7, ME) is None, (
        "a second task of the same process"
    )
    assert await underreplication.held(other) == [HeldLock(ledger_id=L7, holder=ME)]
    await underreplication.release(cluster, mine)
    yours = await underreplication.claim(other, L7, YOU)
    assert yours is not None
    assert yours.mark.replicas == (A,)


async def test_a_repaired_ledger_is_unmarked_and_unlocked(cluster: Cluster) -> None:
    await underreplication.mark(cluster, L7, [A], at_ms=1)
    claim = await underreplication.claim(cluster, L7, ME)
    assert claim is not None
    assert await underreplication.finish(cluster, claim)
    assert await marked(cluster) == []
    assert await underreplication.held(cluster) == []
    assert await underreplication.claim(cluster, L7, ME) is None, "there is nothing to repair"
    assert await underreplication.held(cluster) == []


async def test_what_is_lost_while_a_repair_runs_stays_marked(
    cluster: Cluster, other: Cluster
) -> None:
    await underreplication.mark(cluster, L7, [A], at_ms=1)
    claim = await underreplication.claim(cluster, L7, ME)
    assert claim is not None
    await underreplication.mark(other, L7, [B], at_ms=2)
    assert not await underreplication.finish(cluster, claim)
    mark = await underreplication.read(cluster, L7)
    assert mark is not None
    assert mark.replicas == (A, B)
    assert await underreplication.held(cluster) == []


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("number", range(4))
async def test_claiming_and_finishing_in_doubt_end_clean(
    memory: MemoryPlace, number: int, loss: ExchangeLoss
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    await underreplication.mark(cluster, L7, [A], at_ms=1)
    weather.lose(store, number, loss)
    claim = await underreplication.claim(cluster, L7, ME)
    assert claim is not None
    assert await underreplication.finish(cluster, claim)
    assert await marked(cluster) == []
    assert await underreplication.held(cluster) == []


async def claimed(memory: MemoryPlace) -> tuple[Cluster, Cluster, Claim]:
    """Have a ledger marked and claimed by one process; give its view, another's, and the claim."""
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    other = await clusters.open_cluster(await memory.open())
    await underreplication.mark(cluster, L7, [A], at_ms=1)
    claim = await underreplication.claim(cluster, L7, ME)
    assert claim is not None
    return cluster, other, claim


@virtual_time.played
async def test_finishing_in_doubt_leaves_a_mark_that_was_made_anew_and_its_claim() -> None:
    memory = MemoryPlace()
    cluster, other, claim = await claimed(memory)
    store = cluster.store
    assert isinstance(store, MemoryStore)

    async def lost_again() -> None:
        await underreplication.mark(other, L7, [B], at_ms=2)
        assert await underreplication.claim(other, L7, YOU) is not None

    # The first is applied, and its answer is lost; the next one is slow.
    passages = iter([Passage(loss=ExchangeLoss.ANSWER)])

    def passage(_: RequestKind) -> Passage:
        if (first := next(passages, None)) is not None:
            return first
        tasks.create_task(lost_again())
        store.weather = calm
        return Passage(there_ms=500)

    async with asyncio.TaskGroup() as tasks:
        store.weather = passage
        assert not await underreplication.finish(cluster, claim)
    mark = await underreplication.read(other, L7)
    assert mark == Underreplicated(replicas=(B,), marked_ms=2)
    assert await underreplication.held(other) == [HeldLock(ledger_id=L7, holder=YOU)]
    await memory.close()


async def check_of_a_node(cluster: Cluster) -> Check:
    """Make a node beside the marks; give a check that it stays as it is."""
    path = cluster.root.below("a-start")
    await cluster.store.create(path)
    return Check(path=path, version=0)


@pytest.mark.parametrize("removed", [False, True])
async def test_s142_nothing_is_taken_off_a_mark_when_what_was_looked_at_has_changed(
    cluster: Cluster, *, removed: bool
) -> None:
    await underreplication.mark(cluster, L7, [A, B], at_ms=1)
    check = await check_of_a_node(cluster)
    claim = await underreplication.claim(cluster, L7, ME)
    assert claim is not None
    await underreplication.mark(cluster, L7, [A], at_ms=2)
    if removed:
        await cluster.store.delete(check.path, version=check.version)
    else:
        await cluster.store.commit([Put(path=check.path, value=b"2", version=0)])
    assert not await underreplication.finish(cluster, claim, [check])
    assert await marked(cluster) == [L7]
    assert await underreplication.held(cluster) == [], "the claim is over all the same"
    assert not await underreplication.unmark(cluster, L7, [A], [check])
    assert await underreplication.read(cluster, L7) == Underreplicated(replicas=(A, B), marked_ms=1)


async def test_a_mark_is_finished_under_checks_that_hold(cluster: Cluster) -> None:
    await underreplication.mark(cluster, L7, [A, B], at_ms=1)
    check = await check_of_a_node(cluster)
    assert await underreplication.unmark(cluster, L7, [A], [check])
    claim = await underreplication.claim(cluster, L7, ME)
    assert claim is not None
    assert await underreplication.finish(cluster, claim, [check])
    assert await marked(cluster) == []


async def test_a_worker_that_lost_its_session_cannot_finish(memory: MemoryPlace) -> None:
    cluster, other, claim = await claimed(memory)
    memory.server.expire(claim.session)
    yours = await underreplication.claim(other, L7, YOU)
    assert yours is not None
    with pytest.raises(SessionLostError):
        await underreplication.finish(cluster, claim)
    await underreplication.release(cluster, claim)
    assert await underreplication.held(other) == [HeldLock(ledger_id=L7, holder=YOU)]
    assert await marked(other) == [7]


async def test_a_mark_that_cannot_be_read_is_not_claimed(cluster: Cluster) -> None:
    await underreplication.mark(cluster, L7, [A], at_ms=1)
    path = cluster.root.below("underreplication/ledgers/0000/0000/0000/0007/urL0000000007")
    await cluster.store.put(path, b"\xff", version=0)
    with pytest.raises(MalformedError):
        await underreplication.claim(cluster, L7, ME)
    assert await underreplication.held(cluster) == []


async def test_a_lock_whose_holder_cannot_be_read_is_still_a_lock(cluster: Cluster) -> None:
    path = cluster.root.below("underreplication/locks/urL0000000007")
    await cluster.store.create(path, b"garbage", ephemeral=True)
    assert await underreplication.held(cluster) == [HeldLock(ledger_id=L7, holder=None)]


# ── what is set for all ──


async def test_the_switch_is_apaches_and_is_followed(cluster: Cluster, other: Cluster) -> None:
    assert await repair_controls.is_enabled(cluster)
    async with repair_controls.watch_enabled(other) as states:
        assert await anext(states)
        await repair_controls.set_enabled(cluster, enabled=False)
        await repair_controls.set_enabled(cluster, enabled=False)
        assert not await anext(states)
        assert not await repair_controls.is_enabled(cluster)
        await cluster.store.delete(cluster.root.below("underreplication/disable"), version=None)
        assert await anext(states), "Apache's shell enabled it"
    await repair_controls.set_enabled(cluster, enabled=True)


async def test_the_delay_is_mirrored_and_a_foreign_write_is_seen(
    cluster: Cluster, other: Cluster
) -> None:
    path = cluster.root.below("underreplication/lostBookieRecoveryDelay")
    assert not await cluster.store.exists(path)
    await repair_controls.write_delay_s(cluster, 300)
    async with repair_controls.watch_delay(other) as writes:
        first = await anext(writes)
        await repair_controls.write_delay_s(cluster, 300)  # equal: left alone
        await cluster.store.put(path, b"300", version=0)  # Apache's triggeraudit
        assert await anext(writes) > first
    node = await cluster.store.get(path)
    assert node is not None
    assert node.value == b"300"


async def test_the_times_of_the_checks_are_apaches(cluster: Cluster) -> None:
    assert await repair_controls.read_check_time_ms(cluster, PeriodicCheck.REPLICAS) is None
    await repair_controls.write_check_time_ms(cluster, PeriodicCheck.REPLICAS, 1)
    await repair_controls.write_check_time_ms(cluster, PeriodicCheck.REPLICAS, 2)
    assert await repair_controls.read_check_time_ms(cluster, PeriodicCheck.REPLICAS) == 2
    node = await cluster.store.get(cluster.root.below("underreplication/replicascheckctime"))
    assert node is not None
    assert node.value == b"\x08\x02"


# ── elections ──

S1 = SessionId(1)


def scene(
    *votes: str,
    mine: str | None = None,
    session: SessionId | None = S1,
    vacant: int | None = None,
) -> Scene:
    return Scene(votes=votes, mine=mine, session=session, vacant_since_ms=vacant)


@pytest.mark.parametrize(
    ("seen", "stand_in_after_ms", "step"),
    [
        (scene(), None, Vote()),
        (scene("V_1"), None, Vote()),
        (scene("V_1", "V_2", mine="V_2"), None, Wait()),
        (scene("V_1", "V_2", mine="V_1"), None, Lead()),
        (scene("V_1", mine="V_1", session=None), None, Wait()),
        # a stand-in
        (scene("V_1"), 60, Wait()),
        (scene(vacant=100), 60, Wait(until_ms=160)),
        (scene(vacant=90), 60, Vote()),
        (scene(), 60, Wait()),
        (scene("V_1", "V_2", mine="V_2"), 60, Withdraw()),
        (scene("V_1", "V_2", mine="V_1"), 60, Lead()),
        (scene(vacant=0, session=None), 60, Wait()),
    ],
)
def test_each_step_of_a_candidate(
    seen: Scene, stand_in_after_ms: int | None, step: elections.Step
) -> None:
    assert elections.next_step(seen, 150, stand_in_after_ms=stand_in_after_ms) == step


def test_votes_are_ordered_by_their_numbers() -> None:
    names = ("V_0000000010", "V_0000000009", "other", "V_x")
    assert elections.in_order(names) == ("V_0000000009", "V_0000000010")


async def until(
    states: AsyncIterator[Leadership | None], wanted: Callable[[Leadership | None], bool]
) -> Leadership | None:
    async with asyncio.timeout(30):
        async for state in states:
            if wanted(state):
                return state
    raise AssertionError("the stream ended")


async def test_one_leads_and_the_next_follows_when_it_leaves(
    cluster: Cluster, other: Cluster
) -> None:
    votes = elections.auditor_votes(cluster)
    first = contextlib.AsyncExitStack()
    mine = await first.enter_async_context(elections.stand(cluster.store, votes, ME))
    await until(mine, lambda state: state is not None)
    async with elections.stand(other.store, votes, YOU) as yours:
        assert await anext(yours) is None
        assert await elections.leader(other.store, votes) == ME
        node = await other.store.get(votes, sync=True)
        assert node is not None
        assert node.value == b'bookieId: "me"\n'
        await first.aclose()
        await until(yours, lambda state: state is not None)
        assert await elections.leader(other.store, votes) == YOU


async def test_a_leader_that_lost_its_session_is_told_and_stands_again(memory: MemoryPlace) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    votes = elections.zone_watch_votes(cluster)
    async with elections.stand(store, votes, ME) as states:
        first = await until(states, lambda state: state is not None)
        assert first is not None
        memory.server.expire(first.session)
        again = await until(states, lambda state: state is not None and state != first)
        assert again is not None
        with pytest.raises(SessionLostError):
            await store.create(f"{votes}/written", session=first.session)


async def test_a_leader_of_a_lost_session_is_told_before_the_votes_can_be_read(
    memory: MemoryPlace,
) -> None:
    store = await memory.open(Timeouts(request_ms=3_600_000))
    cluster = await clusters.initialise(store, INSTANCE)
    assert isinstance(store, MemoryStore)
    async with elections.stand(store, elections.zone_watch_votes(cluster), ME) as states:
        first = await until(states, lambda state: state is not None)
        assert first is not None
        store.weather = lambda _: Passage(there_ms=3_600_000)
        memory.server.expire(first.session)
        try:
            await until(states, lambda state: state is None)
        finally:  # nothing of what is on its way arrives
            store.cut()
            store.weather = calm
            store.mend()


async def test_a_leader_out_of_reach_does_not_say_that_it_leads(memory: MemoryPlace) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    assert isinstance(store, MemoryStore)
    async with elections.stand(store, elections.zone_watch_votes(cluster), ME) as states:
        await until(states, lambda state: state is not None)
        store.cut()
        await until(states, lambda state: state is None)
        store.mend()
        await until(states, lambda state: state is not None)


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_a_vote_in_doubt_is_found_and_not_doubled(
    memory: MemoryPlace, loss: ExchangeLoss
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    votes = elections.zone_watch_votes(cluster)
    weather.lose(store, 0, loss)
    async with elections.stand(store, votes, ME) as states:
        await until(states, lambda state: state is not None)
        assert len(await store.children(votes) or ()) == 1
    assert await store.children(votes) == ()


async def test_a_stand_in_leads_where_nobody_does_and_is_not_pre_empted(
    cluster: Cluster, other: Cluster
) -> None:
    votes = elections.zone_watch_votes(cluster)
    async with elections.stand(cluster.store, votes, ME, stand_in_after_ms=lambda: 1) as stand_in:
        await until(stand_in, lambda state: state is not None)
        async with elections.stand(other.store, votes, YOU) as ordinary:
            assert await anext(ordinary) is None
            assert await elections.leader(other.store, votes) == ME


async def test_a_stand_in_waits_behind_nobody(cluster: Cluster, other: Cluster) -> None:
    votes = elections.zone_watch_votes(cluster)
    async with elections.stand(other.store, votes, YOU) as ordinary:
        await until(ordinary, lambda state: state is not None)
        async with elections.stand(
            cluster.store, votes, ME, stand_in_after_ms=lambda: 1
        ) as stand_in:
            assert await anext(stand_in) is None
            assert len(await other.store.children(votes, sync=True) or ()) == 1
