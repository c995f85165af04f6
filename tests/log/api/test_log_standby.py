"""Candidates of a log: who writes, who takes over, who gives the log back; in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import NAME, SHORT, check_whole, create, message, read_all, record_of
from tests.log.standby_lab import SMALL, Host, all_acked, eventually, until
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.metadata.logs.log_candidates import CandidateTaken

#: Nobody rotates by itself.
LONG = LogRules()


async def finish(lab: Lab, *hosts: Host) -> None:
    """End all hosts; each acknowledged message is in the log once, and nothing is in it twice."""
    for host in hosts:
        if not host.ended:
            await host.leave()
        assert host.failure is None or isinstance(host.failure, CandidateTaken)
    async with lab.client("check") as client:
        count = len(await read_all(client))
    await check_whole(lab, count)
    acked = all_acked(*hosts)
    assert len(set(acked)) == len(acked), "a message was acknowledged to two writers"
    assert acked[-1] < count


def writes(host: Host) -> bool:
    return host.turn is not None


async def writing_host(lab: Lab, name: str, zone: str) -> Host:
    """Start a candidate, and wait until it writes."""
    host = Host(name, zone, lab).start()
    await until(lambda: len(host.acked) > 3)
    return host


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
    await until(lambda: second.standby is not None and second.standby.counts.standing == 1)
    await asyncio.sleep(1)
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
    await until(lambda: second.standby is not None)
    await asyncio.sleep(1)
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
    await until(lambda: second.standby is not None)
    await asyncio.sleep(1)
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
    await until(lambda: second.standby is not None)
    await asyncio.sleep(1)
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
