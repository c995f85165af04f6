"""Candidates of a log: who writes, who takes over, who gives the log back; in virtual time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import NAME, SHORT, WallClock, check_whole, create, message, record_of
from tests.log.standby_lab import SMALL, Host, finish, until, writes, writing_host
from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_standby import LogStandby
from zonekeeper.log.base.errors import LogEnded
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats.log_record import (
    LogDeleting,
    LogRules,
    LogTaken,
    OtherIncarnation,
)
from zonekeeper.metadata.logs import log_candidate, log_candidates
from zonekeeper.metadata.logs.log_candidate import BadCandidateError, CandidateMark
from zonekeeper.metadata.logs.log_candidates import CandidateTaken, HandoverUnderWay
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import ZoneName

#: Nobody rotates by itself.
LONG = LogRules()


@played(bookies_in=SMALL)
async def test_the_first_zone_that_has_a_candidate_writes(lab: Lab) -> None:
    await create(lab)
    hosts = [Host("b-1", "b", lab), Host("a-1", "a", lab)]
    for host in hosts:
        host.start()
    await until(lambda: len(hosts[1].acked) > 5)
    record = await record_of(lab)
    assert record.writer is not None
    assert (record.writer.candidate, record.writer.address) == ("a-1", "a-1:70")
    await finish(lab, *hosts)
    assert (await record_of(lab)).unended == (), "a candidate that leaves closes the log"


@played(bookies_in=SMALL)
async def test_another_one_takes_over_when_the_writer_dies(lab: Lab) -> None:
    await create(lab)
    first = await writing_host(lab, "a-1", "a")
    second = Host("b-1", "b", lab).start()
    await until(second.stands)
    loop = asyncio.get_running_loop()
    died_s = loop.time()
    await first.kill()
    await until(lambda: len(second.acked) > 0)
    assert 4.9 < loop.time() - died_s < 6
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_a_candidate_whose_session_ended_yields_and_stands_again(lab: Lab) -> None:
    """It stops for lack of a claim only, and gets the log back at a rotation of the other one."""
    await create(lab, SHORT)
    first, second = await writing_host(lab, "a-1", "a"), Host("b-1", "b", lab).start()
    await until(second.stands)
    assert first.store is not None
    assert first.store.session.id is not None
    acked = len(first.acked)
    lab.server.expire(first.store.session.id)
    await until(lambda: len(second.acked) > 0)
    assert first.acked[acked:] == [] or first.acked[-1] < second.acked[0]
    await until(lambda: first.turns == 2)
    assert first.standby is not None
    assert (first.standby.counts.lost, first.standby.counts.given) == (1, 0)
    assert second.standby is not None
    assert (second.standby.counts.lost, second.standby.counts.given) == (0, 1)
    await until(lambda: len(first.acked) > acked + 5)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_a_log_is_given_back_at_a_rotation_and_not_before(lab: Lab) -> None:
    await create(lab, LogRules(rotate_after_ms=100_000))
    second = await writing_host(lab, "b-1", "b")
    await asyncio.sleep(10)
    first = Host("a-1", "a", lab).start()
    await asyncio.sleep(80)
    assert writes(second)
    assert not writes(first)
    before = second.acked[-1]
    await until(lambda: len(first.acked) > 3)
    assert second.acked[-1] > before
    assert second.acked == list(range(second.acked[0], first.acked[0]))
    assert second.standby is not None
    assert second.standby.counts.lost == 0
    assert not writes(second)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_a_fence_is_no_end_of_a_turn(lab: Lab) -> None:
    """No ledger is open for a moment. The log is not taken, but given back as at a rotation."""
    await create(lab)
    second = await writing_host(lab, "b-1", "b")
    first = Host("a-1", "a", lab).start()
    await until(first.stands)
    async with lab.client("replicator") as replicator:
        await replicator.open((await record_of(lab)).ledgers[-1].id, recover=True)
    await until(lambda: len(first.acked) > 3)
    assert second.standby is not None
    assert (second.standby.counts.lost, second.standby.counts.given) == (0, 1)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_of_one_zone_the_one_that_writes_goes_on(lab: Lab) -> None:
    await create(lab, SHORT)
    first = await writing_host(lab, "a-2", "a")
    second = Host("a-1", "a", lab).start()
    await until(lambda: len(first.acked) > 50)
    assert (first.turns, second.turns) == (1, 0)
    await first.kill()
    await until(lambda: len(second.acked) > 0)
    third = Host("a-2", "a", lab).start()
    await until(lambda: len(second.acked) > 50)
    assert third.turns == 0
    await finish(lab, first, second, third)


@played(bookies_in=SMALL)
async def test_the_store_is_away_for_a_minute(lab: Lab) -> None:
    """Appends go on, and nobody takes the log; afterwards there is one writer."""
    await create(lab)
    first, second = await writing_host(lab, "a-1", "a"), Host("b-1", "b", lab).start()
    await until(second.stands)
    for store in lab.stores:
        store.cut()
    before = len(first.acked)
    await asyncio.sleep(60)
    assert len(first.acked) > before + 200
    for store in lab.stores:
        store.mend()
    await asyncio.sleep(20)
    assert [writes(first), writes(second)].count(True) == 1
    host = first if writes(first) else second
    count = len(host.acked)
    await until(lambda: len(host.acked) > count + 10)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
@pytest.mark.parametrize("busy", [True, False])
async def test_a_writer_that_is_cut_off_from_the_standby_alone(lab: Lab, busy: bool) -> None:
    """It is taken over when its session has ended, and hears so by its other session at once."""
    await create(lab)
    first, second = await writing_host(lab, "a-1", "a"), Host("b-1", "b", lab).start()
    await until(second.stands)
    first.busy = busy
    assert first.store is not None
    first.store.cut()
    await until(lambda: len(second.acked) > 0)
    await until(lambda: not writes(first), 1)
    assert first.standby is not None
    assert first.standby.counts.lost == 1
    await asyncio.sleep(30)
    assert first.turns == 1, "a candidate that is cut off opens nothing"
    assert writes(second)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_two_candidates_of_one_name(lab: Lab) -> None:
    """The second waits as long as a session may last, and is refused in words."""
    await create(lab)
    first = await writing_host(lab, "host-1", "a")
    second = Host("host-1", "a", lab).start()
    await until(lambda: second.ended)
    assert isinstance(second.failure, CandidateTaken)
    assert second.failure.retryable
    assert not second.failure.maybe_applied
    assert writes(first)
    await first.kill()
    third = Host("host-1", "a", lab).start()  # its former life has not ended yet
    await until(lambda: len(third.acked) > 0)
    await finish(lab, first, third)


@played(bookies_in=SMALL)
async def test_a_candidate_that_cannot_open_lets_another_one_try(lab: Lab) -> None:
    await create(lab)
    for bookie in lab.machines:
        lab.network.cut("a-1", bookie)
    first = Host("a-1", "a", lab).start()
    await asyncio.sleep(20)
    second = Host("b-1", "b", lab).start()
    await until(lambda: len(second.acked) > 0, 600)
    assert first.standby is not None
    assert first.standby.counts.failed > 0
    assert first.acked == []
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_a_log_that_is_deleted_has_no_candidates_any_more(lab: Lab) -> None:
    await create(lab)
    first, second = await writing_host(lab, "a-1", "a"), Host("b-1", "b", lab).start()
    await until(second.stands)
    assert first.logs is not None
    async with plain(lab) as log:
        await log.delete(NAME)
        await until(lambda: first.ended and second.ended)
        assert isinstance(first.failure, NoLogError | LogDeleting)
        assert isinstance(second.failure, NoLogError | LogDeleting)
        assert not first.failure.retryable
        cluster = log.client.cluster
        await asyncio.sleep(10)
        assert not await cluster.store.children(log_candidates.top(cluster))


@played(bookies_in=SMALL)
@pytest.mark.parametrize("away", [True, False])
async def test_a_log_that_is_made_anew_is_another_one(lab: Lab, away: bool) -> None:
    """Its old candidates open it never; new ones do, once the name of an old one is free."""
    await create(lab)
    first = await writing_host(lab, "a-1", "a")
    assert first.store is not None
    assert first.logs is not None
    store = first.logs.client.cluster.store
    assert isinstance(store, MemoryStore)
    if away:
        store.cut()
    async with plain(lab) as log:
        await log.delete(NAME)
        await log.create(NAME)
        second = Host("b-1", "b", lab).start()
        await until(lambda: len(second.acked) > 0)
        third = Host("a-1", "a", lab).start()
        store.mend()
        await until(lambda: first.ended)
        assert isinstance(first.failure, OtherIncarnation | NoLogError | LogDeleting)
        await until(third.stands)
        assert [one.name for one in await log.candidates(NAME)] == ["a-1", "b-1"]
    for host in (third, second):
        await host.leave()


@played(bookies_in=SMALL)
async def test_while_the_root_is_restored_no_candidate_opens_a_log(lab: Lab) -> None:
    await create(lab)
    cluster = await lab.cluster()
    mark = Restored(at_ms=1, high=1)
    where = cluster.root.beside("restored")
    await cluster.store.create(where, restored.render(mark, cluster.instance))
    hosts = [Host("a-1", "a", lab).start(), Host("b-1", "b", lab).start()]
    await asyncio.sleep(100)
    assert [host.turns for host in hosts] == [0, 0]
    assert all(host.standby is not None and host.standby.counts.failed > 1 for host in hosts)
    assert all(host.standby is not None and host.standby.counts.failed < 20 for host in hosts)
    await cluster.store.delete(where, version=None)
    await until(lambda: any(host.acked for host in hosts))
    await finish(lab, *hosts)


@played(bookies_in=SMALL)
async def test_strangers_among_the_candidates_are_left_out(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    await create(lab)
    cluster = await lab.cluster()
    folder, store = log_candidates.folder(cluster, NAME), cluster.store
    good = CandidateMark(
        candidacy="1" * 32, log_id="2" * 32, zone=ZoneName("a"), zones=(ZoneName("a"),)
    )
    other = log_candidate.render(good, cluster.instance)
    newer = json.dumps({**json.loads(other), "format": 99}).encode()
    foreign = log_candidate.render(good, "another")
    for name, value in {
        "candidate.a-0": other,  # of another incarnation
        "candidate.a-newer": newer,
        "candidate.a-damaged": b"{",
        "candidate.a-foreign": foreign,
        "candidate.": other,
        "readme": b"hello",
        "handover": b"what",
    }.items():
        await store.create(f"{folder}/{name}", value, make_parents=True)
    first, second = await writing_host(lab, "b-1", "b"), Host("a-1", "a", lab).start()
    await until(second.stands)
    async with plain(lab) as log:
        assert [one.name for one in await log.candidates(NAME)] == ["a-1", "b-1"]
        with pytest.raises(HandoverUnderWay):  # the stranger's node is in the way, and is named
            await log.handover(NAME, "a-1")
    await store.delete(f"{folder}/handover", version=None)
    async with plain(lab) as log:
        await log.handover(NAME, "a-1")
    await finish(lab, first, second)
    assert "candidate.a-newer in memory is left out: " in caplog.text


@played(bookies_in=SMALL)
async def test_a_candidate_whose_node_a_person_removed_stands_again(lab: Lab) -> None:
    await create(lab)
    first = await writing_host(lab, "a-1", "a")
    cluster = await lab.cluster()
    where = f"{log_candidates.folder(cluster, NAME)}/candidate.a-1"
    await cluster.store.delete(where, version=None)
    assert await cluster.store.get(where) is None
    async with asyncio.timeout(10), cluster.store.watch(where) as nodes:
        async for node in nodes:
            if node is not None:
                break
    assert first.turns == 1
    await finish(lab, first)


@played(bookies_in=SMALL)
async def test_a_candidate_that_could_never_write_is_refused(lab: Lab) -> None:
    await create(lab)
    async with plain(lab) as log:
        for name, zone in (("a/1", "a"), ("", "a"), ("x" * 101, "a"), ("a-1", "a b")):
            with pytest.raises(BadCandidateError):
                async with log.standby(name, zone=zone):
                    pass
        for takeovers in (0, -1):
            with pytest.raises(ValueError, match="takeovers is at least 1"):
                async with log.standby("a-1", zone="a", takeovers=takeovers):
                    pass
        async with log.standby("a-1", zone="a", address="y" * 1_001) as standby:
            with pytest.raises(BadCandidateError, match="an address of 1001 characters"):
                await enter(standby, ["a"])
        async with log.standby("a-1", zone="a") as standby:
            for zones in ([], ["b"], ["a", "a"], ["a/b"], [f"z{one}" for one in range(101)]):
                with pytest.raises(BadCandidateError):
                    await enter(standby, zones)
            with pytest.raises(NoLogError):
                await enter(standby, ["a"], "nothing")
            async with standby.turn(NAME, ["a"]):
                with pytest.raises(BadCandidateError, match="stands for log orders/eu-1 already"):
                    await enter(standby, ["a"])
        config = ClientConfig(zone=None)
        async with lab.client("nowhere", config) as client:
            nowhere = LogClient(client, Surroundings(Random(1), WallClock()))
            with pytest.raises(BadCandidateError, match="candidate a-1 has no zone"):
                async with nowhere.standby("a-1"):
                    pass


async def enter(standby: LogStandby, zones: list[str], name: str = NAME) -> None:
    async with standby.turn(name, zones):
        pass


@played(bookies_in=SMALL)
async def test_a_block_that_raises_stops_its_writer_and_the_log_stays_open(lab: Lab) -> None:
    await create(lab)
    async with plain(lab) as log, log.standby("a-1", zone="a") as standby:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 the block is what is tested
            async with standby.turn(NAME, ["a"]) as turn:
                await turn.writer.append_and_wait(message(0))
                raise ZeroDivisionError
        assert len((await log.record(NAME)).unended) == 1
        async with standby.turn(NAME, ["a"]) as turn:  # it is this candidate's own
            await turn.writer.append_and_wait(message(1))
        assert (await log.record(NAME)).unended == ()
        assert standby.counts.writing == 0
    await check_whole(lab, 2)


@played(bookies_in=SMALL)
async def test_a_block_that_cannot_know_of_lost_messages_hears_of_them(lab: Lab) -> None:
    """It ends by itself and never asked if its messages are stored, while another has the log."""
    await create(lab)
    async with plain(lab) as log, log.standby("a-1", zone="a") as standby:
        with pytest.raises(LogTaken):  # noqa: PT012 the block is what is tested
            async with standby.turn(NAME, ["a"]) as turn:
                await turn.writer.append_and_wait(message(0))
                store = log.client.cluster.store
                assert isinstance(store, MemoryStore)
                store.read_lag_ms = 60_000  # so it hears of nothing
                async with plain(lab, "other") as other, other.writer(NAME):
                    pass
                await turn.writer.append(message(1))
        assert standby.counts.lost == 1
    await check_whole(lab, 1)


@played(bookies_in=SMALL)
async def test_what_a_block_waits_for_ends_with_the_turn(lab: Lab) -> None:
    await create(lab, SHORT)
    ended = list[str]()

    async def serve(standby: LogStandby) -> None:
        async with standby.turn(NAME, ["a", "b"]) as turn:
            assert await turn.during(asyncio.sleep(1, "slept")) == "slept"
            with pytest.raises(ZeroDivisionError):
                await turn.during(fail())
            await turn.writer.append_and_wait(message(0))
            await turn.during(asyncio.Event().wait())
        ended.append(standby.candidate)

    async with plain(lab) as log, log.standby("b-1", zone="b") as standby:
        task = asyncio.ensure_future(serve(standby))
        await until(lambda: standby.counts.writing == 1)
        host = Host("a-1", "a", lab).start()
        await until(host.stands)
        await asyncio.sleep(5)
        await log.handover(NAME, "a-1")
        await task
        assert ended == ["b-1"]
    await finish(lab, host)


async def fail() -> None:
    raise ZeroDivisionError


@played(bookies_in=SMALL)
async def test_an_error_of_another_writer_is_not_taken_for_the_end_of_the_turn(lab: Lab) -> None:
    await create(lab)
    await create(lab, name="orders/us-1")
    async with plain(lab) as log, log.standby("a-1", zone="a") as standby:
        async with log.writer("orders/us-1") as other:
            pass
        with pytest.raises(LogEnded):
            async with standby.turn(NAME, ["a"]):
                await other.append(message(0))


@played(bookies_in=SMALL)
async def test_an_opening_that_had_to_wait_is_decided_again(lab: Lab) -> None:
    """Meanwhile another candidate has taken the log, and is not disturbed."""
    await create(lab)
    async with plain(lab) as log, log.standby("b-1", zone="b", takeovers=1) as standby:
        await standby._gate.acquire()  # another log is being opened
        task = asyncio.ensure_future(enter(standby, ["a", "b"]))
        await until(lambda: standby.stands_for(NAME))
        first = await writing_host(lab, "a-1", "a")
        standby._gate.release()
        await asyncio.sleep(5)
        assert (standby.counts.taken, first.turns) == (0, 1)
        assert writes(first)
        task.cancel()
        await asyncio.wait({task})
    await finish(lab, first)


@played(bookies_in=SMALL)
async def test_a_process_that_takes_no_turn_is_no_candidate(lab: Lab) -> None:
    await create(lab)
    async with plain(lab) as log, log.standby("a-1", zone="a") as standby:
        for number in range(2):
            async with standby.turn(NAME, ["a"]) as turn:
                await turn.writer.append_and_wait(message(number))
            assert [one.name for one in await log.candidates(NAME)] == ["a-1"]
            await asyncio.sleep(3)
            assert await log.candidates(NAME) == []
    await check_whole(lab, 2)


@asynccontextmanager
async def plain(lab: Lab, name: str = "person") -> AsyncIterator[LogClient]:
    """Give a client of logs whose standby has no session of its own."""
    async with lab.client(name) as client:
        yield LogClient(client, Surroundings(Random(name), WallClock()))
