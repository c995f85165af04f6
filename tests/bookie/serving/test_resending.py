"""A request that arrives twice, and one that claims the same entry for other bytes (S03)."""

from tests.bookie.running import Outcomes, frame, open_fragment, opening, read_ids, running
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.serving.measuring import OK, MeasuredBookie, Measures
from zonekeeper.wire.formats import carriers, errors


async def test_s03_the_same_again_is_acknowledged_and_other_bytes_are_a_conflict() -> None:
    async with running(MemoryFileSystem()) as bookie:
        measures, heard = Measures(), Outcomes()
        measured = MeasuredBookie(bookie, measures)
        await open_fragment(measured, opening())
        for number, sent in enumerate([frame(0), frame(0), frame(0, data=b"other")]):
            measured.append([carriers.Append(number=number, frame=sent)], heard)

        assert [await heard.of(0), await heard.of(1)] == [None, None]
        assert isinstance(await heard.of(2), errors.EntryMismatch)
        assert measures.outcomes["append", OK] == 2
        assert measures.outcomes["append", "EntryMismatch"] == 1
        assert await read_ids(bookie) == [0]
