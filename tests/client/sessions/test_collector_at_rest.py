"""While the entries of a reply are made, no garbage collection walks through them."""

import gc
import sys
from collections.abc import Iterator
from types import FrameType

import pytest

from tests.client.lab import Lab, played
from tests.client.recovery_world import written
from zonekeeper.client.sessions import read_session


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def test_no_collection_runs_while_entries_are_made_and_one_may_run_behind_that() -> None:
    begun: list[str] = []
    many: list[list[int]] = []

    def note(phase: str, _: dict[str, int]) -> None:
        begun.append(phase)

    gc.callbacks.append(note)
    try:
        with read_session._collector_at_rest():
            many += [[number] for number in range(10_000)]
            assert begun == []
        many += [[number] for number in range(10_000)]
        assert begun
    finally:
        gc.callbacks.remove(note)


def test_a_failure_leaves_the_collector_as_it_was() -> None:
    with pytest.raises(KeyError), read_session._collector_at_rest():
        raise KeyError
    assert gc.isenabled()


def test_an_application_without_the_collector_stays_without_it() -> None:
    gc.disable()
    with read_session._collector_at_rest():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_a_second_thread_leaves_it_to_the_first() -> None:
    with read_session._collector_at_rest():
        with read_session._collector_at_rest():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


@played()
async def test_a_reader_has_its_entries_checked_without_a_collection(lab: Lab) -> None:
    within: set[str] = set()

    def note(_: str, __: dict[str, int]) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            within.add(frame.f_code.co_name)
            frame = frame.f_back

    async with lab.client() as client:
        writer = await written(client, 5_000)
        await writer.close()
        reader = await client.open(writer.ledger_id)
        gc.callbacks.append(note)
        try:
            count = sum([len(batch) async for batch in reader.read()])
        finally:
            gc.callbacks.remove(note)
    assert count == 5_000
    assert within
    assert "open_all" not in within
