"""Both sides agree on the highest version of the wire that they have in common, on any transport.

The next version is made by a parameter: its carriers differ from ours in their version byte only,
so that a carrier of the wrong version is noticed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.support import virtual_time
from tests.wire.link.worlds import (
    KEY,
    PATIENT,
    GrpcWorld,
    Outcomes,
    SocketWorld,
    TwinWorld,
    World,
    Writer,
    opened,
    read,
)
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract.links import AppendLane, BookieLink
from zonekeeper.wire.contract.service import ListEntriesRequest, TailRequest
from zonekeeper.wire.formats import carriers, errors, versions
from zonekeeper.wire.formats.versions import WireVersions

NOW = WireVersions(1, 1)
NEXT = WireVersions(1, 2)
#: A release that no longer speaks what the one before this issue spoke.
LATER = WireVersions(2, 3)

KINDS: list[type[World]] = [GrpcWorld, SocketWorld, TwinWorld]


def sides(
    kind: type[World],
    bookie: WireVersions | None,
    client: WireVersions | None,
    scenario: Callable[[World, BookieLink], Awaitable[None]],
) -> None:
    """Play a scenario between a bookie and a client that speak these; None: it says nothing."""

    async def play() -> None:
        async with asyncio.timeout(300), asyncio.TaskGroup() as tasks:
            world = kind(tasks)
            world.speaks = bookie
            await world.start()
            try:
                await scenario(world, world.link(replace(PATIENT, speaks=client)))
            finally:
                await world.close()

    if kind is TwinWorld:
        virtual_time.run(play())
    else:
        asyncio.run(play())


async def _append(link: BookieLink) -> None:
    writer, lane, outcomes = await opened(link, 8)
    lane.append(writer.frame(b"one"))
    await outcomes.all_of(1)


async def _tail(link: BookieLink) -> None:
    request = TailRequest(
        ledger_id=LedgerId(7), first_entry_id=EntryId(0), bytes_max=1 << 20, quiet_ms=1_000
    )
    async with aclosing(link.tail(request)) as updates:
        await anext(updates)


async def _list(link: BookieLink) -> None:
    await link.list_entries(
        ListEntriesRequest(ledger_id=LedgerId(7), first_entry_id=EntryId(0), ranges_max=10)
    )


async def _read(link: BookieLink) -> None:
    await link.read(read(7, 0, 0))


async def _info(link: BookieLink) -> None:
    await link.info()


async def _fence(link: BookieLink) -> None:
    await link.fence(LedgerId(7), KEY)


#: Every operation of ``BookieLink``; a ledger 7 with one entry is there.
OPERATIONS: dict[str, Callable[[BookieLink], Awaitable[None]]] = {
    "append": _append,
    "read": _read,
    "tail": _tail,
    "list_entries": _list,
    "read_lac": lambda link: _nothing(link.read_lac(LedgerId(7))),
    "force": lambda link: link.force(LedgerId(7)),
    "info": _info,
    "set_read_only": lambda link: link.set_read_only(read_only=False),
    "end_limbo": lambda link: link.end_limbo(LedgerId(7), 1),
    "compact": lambda link: link.compact(major=False),
    "fence": _fence,
}


async def _nothing(work: Awaitable[object]) -> None:
    await work


def test_every_operation_of_a_link_is_played() -> None:
    of_a_link = {name for name in vars(BookieLink) if not name.startswith("_")}
    assert {*OPERATIONS, "bookie_id", "open_fragment"} - {"append"} == of_a_link


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("bookie", "client", "spoken"),
    [
        (None, None, 1),
        (None, NOW, 1),
        (NOW, None, 1),
        (NOW, NOW, 1),
        (None, NEXT, 1),
        (NEXT, None, 1),
        (NOW, NEXT, 1),
        (NEXT, NOW, 1),
        (NEXT, NEXT, 2),
        (NEXT, LATER, 2),
        (LATER, NEXT, 2),
        (LATER, LATER, 3),
    ],
)
def test_the_highest_common_version_is_spoken(
    kind: type[World], bookie: WireVersions | None, client: WireVersions | None, spoken: int
) -> None:
    async def scenario(world: World, link: BookieLink) -> None:
        writer, lane, outcomes = await opened(link, 7)
        lane.append(writer.frame(b"zero"))
        await outcomes.all_of(1)
        for operation in OPERATIONS.values():
            await operation(link)
        assert [pipe.versions for pipe in world.host.pipes] == [{carriers.VERSION - 1 + spoken}]

    sides(kind, bookie, client, scenario)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("bookie", "client", "older"),
    [
        (NOW, LATER, "the bookie rack-a-0"),
        (LATER, NOW, "the client"),
        (LATER, None, "the client"),
    ],
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_without_a_common_version_nothing_is_done_and_the_error_names_both(
    kind: type[World],
    bookie: WireVersions | None,
    client: WireVersions | None,
    older: str,
    name: str,
) -> None:
    async def scenario(_: World, link: BookieLink) -> None:
        for _again in range(3):  # at once, in the back-off too
            with pytest.raises(errors.UnsupportedVersion) as caught:
                await OPERATIONS[name](link)
            error = caught.value
            assert f"the client speaks wire version {client or 1}" in str(error)
            assert f"the bookie rack-a-0 speaks {bookie or 1}" in str(error)
            assert f"upgrade {older}" in str(error)
            assert (error.retryable, error.maybe_applied) == (False, False)

    sides(kind, bookie, client, scenario)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["append", "read"])
def test_a_bookie_that_says_nothing_is_not_spoken_to_in_a_version_after_the_first(
    kind: type[World], name: str
) -> None:
    async def scenario(_: World, link: BookieLink) -> None:
        with pytest.raises(errors.UnsupportedVersion, match="it says none, so it is older"):
            await OPERATIONS[name](link)

    sides(kind, None, LATER, scenario)


async def opened_again(link: BookieLink) -> tuple[Writer, AppendLane, Outcomes]:
    """Open a ledger on a bookie that was started anew, as a patient caller does."""
    while True:
        try:
            return await opened(link, 7)
        except (errors.NotConnected, errors.ConnectionLost):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bookie_that_was_upgraded_is_spoken_to_anew(kind: type[World]) -> None:
    async def scenario(world: World, link: BookieLink) -> None:
        await _append(link)
        world.speaks = NEXT
        await world.restart()
        writer, lane, outcomes = await opened_again(link)
        lane.append(writer.frame(b"zero"))
        await outcomes.all_of(1)
        assert world.host.pipes[-1].versions == {carriers.VERSION + 1}

    sides(kind, NOW, NEXT, scenario)


@pytest.mark.parametrize(
    "text",
    ["", "0", "2..1", "1..1", "1..", "..2", "1-2", "01", "1,2", "1..2,1..3", "12345", "x" * 90],
)
def test_what_is_no_range_is_a_bad_request(text: str) -> None:
    with pytest.raises(errors.BadRequest, match="no range of wire versions"):
        versions.parse(text)


@pytest.mark.parametrize("said", [WireVersions(1, 1), WireVersions(1, 2), WireVersions(3, 9_999)])
def test_a_range_is_read_as_it_was_written(said: WireVersions) -> None:
    assert versions.parse(str(said)) == said


def test_this_release_speaks_what_the_release_before_speaks() -> None:
    assert versions.SPOKEN.lowest <= versions.SILENT.highest
