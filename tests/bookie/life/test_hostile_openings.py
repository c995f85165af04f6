"""A flood of openings: memory, log and the next start stay small, and the others are served (S135).

The peer has the key of one ledger. It opens thousands of fragments of that ledger, each as large as
an opening can be, two ensembles of one fragment in turn, and ledgers that are not there.
"""

import asyncio
import dataclasses
import itertools
import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner
from grpc import aio

from tests.bookie.hostile import until
from tests.bookie.life.process_world import (
    BOOKIE,
    INSTANCE,
    LIMIT_S,
    Started,
    World,
    started,
)
from tests.bookie.running import LEDGER, frame, opening
from tests.bookie.serving.collecting_world import NEW
from tests.bookie.serving.test_links import Sink
from tests.support import figures
from tests.support.http_port import ask, get
from tests.wire.link.worlds import linked
from zonekeeper.bookie.commands import bookie as bookie_commands
from zonekeeper.bookie.ledgers import hints
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats import bookie_names, carriers, errors, openings
from zonekeeper.wire.formats.openings import FragmentOpening
from zonekeeper.wire.grpc import grpc_edge

#: The ledger whose key the hostile peer has, and one that is opened beside the flood.
THEIRS, NEWCOMERS = LedgerId(8), LedgerId(9)
#: Ids that metadata does not have begin here.
UNKNOWN: Final = 1_000_000
STREAMS: Final = 4
#: Openings in a carrier; two in so many are as large as they can be, one more is told in turn.
IN_A_CARRIER: Final = 50
#: Beside what the bookie itself takes may stand: what waits for metadata (64 MiB, and its tasks),
#: the hints of a ledger, the streams' answers, and what the C library keeps of large messages. All
#: fragments of the flood would be a GiB.
MEMORY_MIB: Final = 300
#: What a start may have to read of the log.
LOG_BYTES: Final = 8 << 20

_NAMES: Final = tuple(BookieId(f"{number:0250x}") for number in range(openings.BOOKIES_MAX))
_LARGEST: Final = dataclasses.replace(
    opening(ledger_id=THEIRS),
    quorums=Quorums(ensemble=len(_NAMES), write=1, ack=1),
    ensemble=_NAMES,
)
_IN_TURN: Final = [
    dataclasses.replace(opening(ledger_id=THEIRS), ensemble=ensemble)
    for names in [opening().ensemble]
    for ensemble in (names, names[::-1])
]


def hostile(count: int, start: int) -> Iterator[FragmentOpening]:
    """Give so many openings; ``start`` makes them differ from those of another stream."""
    for number in range(start, start + count):
        if number % IN_A_CARRIER == 0:
            yield dataclasses.replace(_LARGEST, first_entry_id=EntryId(number))
        elif number % IN_A_CARRIER == 1:
            yield _IN_TURN[number // IN_A_CARRIER % 2]
        elif number % IN_A_CARRIER == 2:
            yield dataclasses.replace(_LARGEST, ledger_id=LedgerId(UNKNOWN + number))
        else:
            yield opening(ledger_id=LedgerId(UNKNOWN + number))


@dataclass
class Hostile:
    """A peer that sends openings, takes the answers, and counts them."""

    answers: Counter[str] = field(default_factory=Counter)

    async def flood(self, bookie: Started, count: int) -> None:
        """Send so many openings on some streams of one connection; return when all are answered."""
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        async with aio.insecure_channel(bookie.grpc, options=options) as channel:
            each = count // STREAMS
            async with asyncio.TaskGroup() as tasks:
                for stream in range(STREAMS):
                    tasks.create_task(self._stream(channel, each, stream * each))

    async def _stream(self, channel: aio.Channel, count: int, start: int) -> None:
        open_stream: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            grpc_edge.method_path("Append")
        )
        name = bookie_names.name_of(BOOKIE, INSTANCE)
        stream = open_stream(metadata=grpc_edge.meant_for(name))
        assert isinstance(await stream.read(), bytes)

        async def send() -> None:
            wanted = enumerate(hostile(count, start))
            while some := list(itertools.islice(wanted, IN_A_CARRIER)):
                await stream.write(
                    carriers.build(carriers.Open(number=n, opening=o) for n, o in some)
                )

        async with alongside(send()):
            left = count
            while left:
                message = await stream.read()
                assert isinstance(message, bytes), "no stream is ended: each opening is answered"
                for item in carriers.parse(message):
                    left -= self._count(item)
        stream.cancel()

    def _count(self, item: carriers.Item) -> int:
        if isinstance(item, carriers.Acked):
            number = item.last - item.number + 1
            self.answers["acked"] += number
            return number
        assert isinstance(item, carriers.Refused)
        self.answers[type(errors.from_number(item.code, item.detail)).__name__] += 1
        return 1


@dataclass
class Writer:
    """An honest writer: each entry is acknowledged, whatever others do."""

    acked: int = 0

    async def write(self, link: BookieLink) -> None:
        sink = Sink()
        lane = await link.open_fragment(opening(), sink)
        while True:
            lane.append(frame(self.acked))
            number, error = await sink.outcomes.get()
            assert (number, error) == (self.acked, None)
            self.acked += 1


def memory_mib(bookie: Started, row: str) -> int:
    """Give what the kernel says of a process: resident now (VmRSS), or at most so far (VmHWM)."""
    status = Path(f"/proc/{bookie.process.pid}/status").read_text()
    found = re.search(rf"^{row}:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) >> 10


async def metric(bookie: Started, name: str) -> int:
    _, text = await ask(bookie.http_port, get("/metrics"))
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def log_bytes(world: World) -> int:
    """Give what the next start has to read of the log."""
    said = CliRunner().invoke(
        bookie_commands.bookie,
        ["state", "--data", str(world.data), "--output", "json"],
        catch_exceptions=False,
    )
    return int(json.loads(said.stdout)["backlog"]["bytes"])


def patient(bookie: Started) -> AbstractAsyncContextManager[BookieLink]:
    """A link that waits for an answer: the flood, and the machine, keep the bookie busy."""
    return linked(BookieId(bookie_names.name_of(BOOKIE, INSTANCE)), bookie.grpc)


async def a_newcomer_is_served(bookie: Started) -> None:
    """Let another client open a ledger that the bookie does not know yet."""
    async with patient(bookie) as link, asyncio.timeout(LIMIT_S):
        while True:
            try:
                await link.open_fragment(opening(ledger_id=NEWCOMERS), Sink())
            except (errors.TooManyRequests, errors.MetadataAway):
                continue
            return


async def survives(
    world: World, count: int, record_property: Callable[[str, object], None]
) -> None:
    """Send so many openings beside honest clients, kill the bookie, and start it again."""
    async with world.cluster() as cluster:
        for ledger_id in (THEIRS, NEWCOMERS):
            await ledgers.create(cluster, NEW, ledger_id=ledger_id)
    peer, writer = Hostile(), Writer()
    began_s = time.process_time()
    async with started(world) as bookie:
        begun_mib = memory_mib(bookie, "VmRSS")
        async with (
            patient(bookie) as link,
            alongside(writer.write(link)),
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(peer.flood(bookie, count))
            await until(lambda: peer.answers["TooManyRequests"] > 0)
            before = writer.acked
            await a_newcomer_is_served(bookie)
            await until(lambda: writer.acked >= before + 10)
        at_most_mib = memory_mib(bookie, "VmHWM")
        told = await metric(bookie, "zonekeeper_bookie_hint_bytes")
        assert await metric(bookie, "zonekeeper_bookie_ledgers") == 3
        await bookie.end(signal.SIGKILL)

    assert peer.answers.total() == count
    assert peer.answers.keys() <= {
        *("acked", "BadRequest", "LedgerDeleted", "MetadataAway", "TooManyRequests")
    }
    assert peer.answers["BadRequest"] > 0, "the ledger's limit is reached"
    assert told <= hints.LEDGER_BYTES_MAX + (1 << 10)
    assert at_most_mib < begun_mib + MEMORY_MIB, peer.answers
    assert log_bytes(world) < LOG_BYTES

    now = asyncio.get_running_loop().time
    from_s = now()
    async with started(world) as again, patient(again) as link:
        restart_ms = int(1_000 * (now() - from_s))
        again_mib = memory_mib(again, "VmHWM")
        assert again_mib < begun_mib + MEMORY_MIB
        assert await metric(again, "zonekeeper_bookie_hint_bytes") == told
        wanted = service.ListEntriesRequest(
            ledger_id=LEDGER, first_entry_id=EntryId(0), ranges_max=9
        )
        assert (await link.list_entries(wanted)).ranges[0][1] >= writer.acked - 1
    counts = {
        "openings": count,
        **{f"answered {answer}": number for answer, number in sorted(peer.answers.items())},
        "honest entries acknowledged": writer.acked,
        "MiB before": begun_mib,
        "MiB at most": at_most_mib,
        "MiB at most after the restart": again_mib,
        "ms to the next readiness": restart_ms,
    }
    figures.record(record_property, "hostile openings", counts, time.process_time() - began_s)


@pytest.mark.processes
async def test_s135_a_flood_of_openings_leaves_a_bookie_small_and_at_work(
    world: World, record_property: Callable[[str, object], None]
) -> None:
    await survives(world, 20_000, record_property)


@pytest.mark.long
async def test_s135_a_million_openings_leave_a_bookie_small_and_at_work(
    world: World, record_property: Callable[[str, object], None]
) -> None:
    await survives(world, 1_000_000, record_property)
