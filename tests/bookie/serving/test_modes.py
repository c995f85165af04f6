"""Since when a bookie is read-only: since the reason came, and not since its text changed."""

from tests.bookie.running import running
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.serving.modes import BY_PERSON
from zonekeeper.metadata.formats.service_info import ReadOnlyReason


async def test_s151_a_condition_stands_since_it_came_though_its_text_changes() -> None:
    now_ms = 100
    async with running(MemoryFileSystem()) as bookie:
        bookie.modes.wall_ms = lambda: now_ms
        bookie.set_conditions(["the device is full: 95.0% used"])
        now_ms = 200
        bookie.set_conditions(["the device is full: 97.0% used", "ledger directory 1: failed"])
        assert bookie.modes.reasons == (
            ReadOnlyReason(reason="the device is full: 97.0% used", since_ms=100),
            ReadOnlyReason(reason="ledger directory 1: failed", since_ms=200),
        )
        bookie.set_conditions([])
        now_ms = 300
        bookie.set_conditions(["the device is full: 95.0% used"])
        assert [one.since_ms for one in bookie.modes.reasons] == [300]


async def test_s151_an_order_stands_since_it_was_first_given_and_a_restart_knows_no_time() -> None:
    now_ms, files = 100, MemoryFileSystem()
    async with running(files) as bookie:
        bookie.modes.wall_ms = lambda: now_ms
        await bookie.set_read_only(read_only=True)
        now_ms = 200
        await bookie.set_read_only(read_only=True)
        bookie.set_conditions(["the device is full: 95.0% used"])
        bookie.set_conditions([])
        told = ReadOnlyReason(reason=BY_PERSON, by_person=True, since_ms=100)
        assert bookie.modes.reasons == (told,)
    async with running(files) as bookie:
        assert bookie.modes.reasons == (ReadOnlyReason(reason=BY_PERSON, by_person=True),)
        await bookie.set_read_only(read_only=False)
        assert not bookie.modes.reasons
