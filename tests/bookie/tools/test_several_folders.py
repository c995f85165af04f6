"""A bookie with a journal and ledger directories of their own: its tools see all of them."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from tests.bookie.segments.keeping import Driver, frame, let_work, opening
from tests.bookie.tools.places import BOOKIE, KEY, SIZES, Place
from tests.support import virtual_time
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.files import RealFileSystem, Space
from zonekeeper.bookie.formats import log_end
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint, Kept
from zonekeeper.bookie.formats.index import Index
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.ledgers.admission import AdmissionState
from zonekeeper.bookie.life import boots, data_folder, process
from zonekeeper.bookie.life.data_folder import HeldFolders
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments import log_ends
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import NO_ENTRY, LedgerId
from zonekeeper.wire.formats import errors

CHECKPOINT_OF_ENDED_LIMBO = Checkpoint(
    log_id=1,
    ledgers={LedgerId(9): Kept(state=AdmissionState(fenced=True), confirmed=NO_ENTRY)},
)
LEDGERS = 3
EVERY = [LedgerId(each) for each in range(1, LEDGERS + 1)]
FRAMES = 60


class Quota(RealFileSystem):
    """A folder with room of its own: what is in it counts against nothing else."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._path = folder

    def space(self) -> Space:
        used = sum(each.stat().st_size for each in self._path.iterdir())
        return Space(total_bytes=1 << 40, free_bytes=(1 << 40) - used)


class Wide(Place):
    """A bookie whose journal and sorted segments are in folders of their own."""

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def ledger_dirs(self) -> tuple[Path, Path]:
        return self.folder / "ledgers-1", self.folder / "ledgers-2"

    def format(self) -> Result:
        return self.on_data(
            *("format", "--metadata", self.metadata, "--id", BOOKIE, "--zone", "a"),
            *("--upgrade-domains", "3", "--journal", str(self.journal), "--yes"),
            *("--ledger-dirs", ",".join(map(str, self.ledger_dirs))),
        )

    def replace(self, *words: str) -> Result:
        return self.on_data(
            *("cookie", "replace-disk", "--id", BOOKIE, "--metadata", self.metadata, "--yes"),
            *words,
        )

    @contextmanager
    def devices(self) -> Iterator[Devices]:
        with ExitStack() as stack:
            held: HeldFolders = stack.enter_context(
                data_folder.all_held(self.data, self.journal, self.ledger_dirs)
            )
            yield Devices(
                arrival_files=held.journal,
                sorted_files=[
                    stack.enter_context(contextlib.closing(Quota(each)))
                    for each in self.ledger_dirs
                ],
                files=held.data,
                index=Index(RocksOrdered(self.data / process.INDEX_NAME)),
                writing=InlineDisk(),
                background=InlineDisk(),
                reads=InlineDisk(),
            )

    async def fill_all(self) -> None:
        """Keep entries of each ledger until there are sorted segments, and then some more."""
        with self.devices() as devices:
            kept = await storage.open_storage(devices, SIZES)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(kept.run())
                driver = Driver(kept)
                for ledger_id in range(1, LEDGERS + 1):
                    await driver.state(ledger_id, admission.OpenWanted(opening=opening(ledger_id)))
                for first in range(0, 2 * FRAMES, 2):
                    for ledger_id in range(1, LEDGERS + 1):
                        await driver.append(frame(ledger_id, [first, first + 1], lac=first - 1))
                await let_work(lambda: len(kept.segments) > 1)
                await driver.state(2, admission.FenceWanted(master_key=KEY))
                kept.log.close()
            await kept.close()

    async def end_limbo_of_all(self) -> None:
        """Put all ledgers in limbo, and let it end: both stand in the log then."""
        await self.change_limbo(EVERY, True, False)

    async def change_limbo(self, ledger_ids: Sequence[LedgerId], *changes: bool) -> None:
        with self.devices() as devices:
            kept = await storage.open_storage(devices, SIZES)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(kept.run())
                driver = Driver(kept)
                for in_limbo in changes:
                    for ledger_id in ledger_ids:
                        await driver.state(ledger_id, admission.LimboWanted(in_limbo=in_limbo))
                kept.log.close()
            await kept.close()

    async def kept(self) -> dict[int, tuple[int, bool]]:
        """Give how many entries each ledger has, and whether it is in limbo."""
        with self.devices() as devices:
            kept = await storage.open_storage(devices, SIZES)
            found = {
                int(each): (await readable(kept, each), ledger.durable.in_limbo)
                for each, ledger in kept.memory.ledgers.items()
            }
            await kept.close()
            return found


async def readable(kept: Storage, ledger_id: LedgerId) -> int:
    ledger = kept.memory.ledgers[ledger_id]
    count = 0
    for at in range(2 * FRAMES):
        try:
            count += len((await kept.read(ledger, range(at, at + 1), 1)).frames)
        except errors.IoFailed:
            continue
    return count


@pytest.fixture
def wide(tmp_path: Path) -> Wide:
    """Such a bookie, filled, that stands still."""
    made = Wide(tmp_path)
    made.initialise()
    answer = made.format()
    assert answer.exit_code == 0, answer.output
    virtual_time.run(made.fill_all())
    return made


def names(folder: Path, prefix: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"{prefix}-*"))


def test_each_kind_of_segment_is_in_its_own_folder(wide: Wide) -> None:
    assert names(wide.journal, "arrival")
    assert all(names(each, "sorted") for each in wide.ledger_dirs)
    for other in (wide.data, *wide.ledger_dirs):
        assert not names(other, "arrival")
    for other in (wide.data, wide.journal):
        assert not names(other, "sorted")


def test_the_tools_see_all_folders_and_are_told_of_one(wide: Wide) -> None:
    answer = wide.on_data("state", "--output", "json")
    assert answer.exit_code == 0, answer.output
    state = json.loads(answer.stdout)
    assert state["entries"] == LEDGERS * 2 * FRAMES
    assert set(state["space"]) == {"data", *map(str, (wide.journal, *wide.ledger_dirs))}
    assert wide.on_data("scrub").exit_code == 0
    assert wide.on_data("rebuild-index").exit_code == 0
    assert [each["entries"] for each in wide.listed("list-ledgers")] == [2 * FRAMES] * LEDGERS
    for folder, prefix in ((wide.journal, "arrival"), (wide.ledger_dirs[1], "sorted")):
        name = names(folder, prefix)[0]
        assert wide.on_data("read-segment", name).exit_code == 0


def test_a_segment_that_was_moved_to_another_folder_is_said_to_be_there(wide: Wide) -> None:
    name = names(wide.ledger_dirs[0], "sorted")[0]
    (wide.ledger_dirs[0] / name).rename(wide.ledger_dirs[1] / name)

    answer = wide.on_data("read-segment", name)

    assert answer.exit_code == 2
    assert f"{name} is not in the ledger directory that the checkpoint names" in answer.stderr
    assert "move it back" in answer.stderr


def test_a_folder_that_is_not_there_is_refused_with_the_way_out(wide: Wide) -> None:
    shutil.rmtree(wide.ledger_dirs[0])

    answer = wide.on_data("state")

    assert answer.exit_code == 2
    assert f"{wide.ledger_dirs[0]} belongs to the bookie of {wide.data}" in answer.stderr
    assert "replace-disk --folder" in answer.stderr
    assert not wide.ledger_dirs[0].exists()


def test_swapped_folders_are_refused(wide: Wide) -> None:
    one, other = wide.ledger_dirs
    aside = wide.folder / "aside"
    one.rename(aside)
    other.rename(one)
    aside.rename(other)

    answer = wide.on_data("state")

    assert (answer.exit_code, "disks were swapped" in answer.stderr) == (2, True)


def test_a_lost_ledger_folder_is_replaced_and_only_what_was_there_is_in_limbo(wide: Wide) -> None:
    lost = wide.ledger_dirs[0]
    refused = wide.replace("--folder", str(lost))
    assert (refused.exit_code, "is not empty" in refused.stderr) == (2, True)
    shutil.rmtree(lost)

    answer = wide.replace("--folder", str(lost))

    assert answer.exit_code == 0, answer.output
    found = asyncio.run(wide.kept())
    assert sorted(found) == [1, 2, 3]
    assert any(count < 2 * FRAMES for count, _ in found.values())
    assert all(in_limbo for count, in_limbo in found.values() if count < 2 * FRAMES)
    assert wide.on_data("scrub").exit_code == 0
    assert wide.on_data("cookie", "show", "--metadata", wide.metadata).exit_code == 0


def test_limbo_of_a_lost_folder_is_not_ended_by_what_the_log_says_of_an_earlier_one(
    wide: Wide,
) -> None:
    asyncio.run(wide.end_limbo_of_all())
    lost = wide.ledger_dirs[0]
    shutil.rmtree(lost)

    answer = wide.replace("--folder", str(lost))

    assert answer.exit_code == 0, answer.output
    for _ in range(2):  # the limbo is that of the next start, and of the one after it
        found = asyncio.run(wide.kept())
        assert any(count < 2 * FRAMES for count, _ in found.values())
        assert all(in_limbo for count, in_limbo in found.values() if count < 2 * FRAMES)
    asyncio.run(wide.end_limbo_of_all())
    assert not any(in_limbo for _, in_limbo in asyncio.run(wide.kept()).values())


def test_limbo_that_ended_after_the_journal_was_replaced_too_does_not_come_back(
    wide: Wide,
) -> None:
    """The generations that the checkpoint spoke of are gone with the journal."""
    for _ in range(5):  # each start begins a generation, and the mark stays
        asyncio.run(wide.kept())
    for lost in (wide.ledger_dirs[0], wide.journal):
        shutil.rmtree(lost)
        answer = wide.replace("--folder", str(lost))
        assert answer.exit_code == 0, answer.output
    assert all(in_limbo for _, in_limbo in asyncio.run(wide.kept()).values())

    asyncio.run(wide.change_limbo(EVERY, False))

    for _ in range(3):
        assert not any(in_limbo for _, in_limbo in asyncio.run(wide.kept()).values())


def test_a_ledger_that_lost_nothing_does_not_come_into_limbo_again(wide: Wide) -> None:
    """The checkpoint has it in limbo, and the log says that this ended."""
    untouched = LedgerId(9)
    limbo = AdmissionState(fenced=True, in_limbo=True)
    with data_folder.held(wide.data) as files:
        last = checkpoints.load(files)
        kept = {untouched: Kept(state=limbo, confirmed=NO_ENTRY)}
        checkpoints.save(files, replace(last, ledgers={**dict(last.ledgers.items()), **kept}))
    asyncio.run(wide.change_limbo([untouched], False))
    lost = wide.ledger_dirs[0]
    shutil.rmtree(lost)

    answer = wide.replace("--folder", str(lost))

    assert answer.exit_code == 0, answer.output
    for _ in range(2):
        found = asyncio.run(wide.kept())
        assert found.pop(untouched) == (0, False)
        assert all(in_limbo for count, in_limbo in found.values() if count < 2 * FRAMES)


def test_limbo_that_ended_before_anybody_showed_a_key_comes_again(wide: Wide) -> None:
    with data_folder.held(wide.data) as files:
        checkpoints.save(files, CHECKPOINT_OF_ENDED_LIMBO)
        log_ends.save(files, log_end.none_of(CHECKPOINT_OF_ENDED_LIMBO.log_id))
    shutil.rmtree(wide.journal)

    answer = wide.replace("--folder", str(wide.journal))

    assert "1 ledgers are in limbo" in answer.output
    with data_folder.held(wide.data) as files:
        ((_, kept),) = checkpoints.load(files).ledgers.items()
    assert kept.state.in_limbo


def test_a_lost_ledger_folder_with_a_lost_index_puts_all_ledgers_in_limbo(wide: Wide) -> None:
    lost = wide.ledger_dirs[1]
    shutil.rmtree(lost)
    shutil.rmtree(wide.data / process.INDEX_NAME)

    answer = wide.replace("--folder", str(lost))

    assert answer.exit_code == 0, answer.output
    assert all(in_limbo for _, in_limbo in asyncio.run(wide.kept()).values())


def test_a_lost_journal_puts_all_ledgers_in_limbo_and_keeps_what_is_sorted(wide: Wide) -> None:
    shutil.rmtree(wide.journal)

    answer = wide.replace("--folder", str(wide.journal))

    assert answer.exit_code == 0, answer.output
    found = asyncio.run(wide.kept())
    assert all(in_limbo for _, in_limbo in found.values())
    assert sum(count for count, _ in found.values()) > 0
    with data_folder.held(wide.journal) as files:
        assert boots.load(files) == 0
    assert wide.on_data("scrub").exit_code == 0


@pytest.mark.parametrize("left", [None, b"", b"not an end"], ids=["missing", "empty", "damaged"])
def test_a_lost_journal_is_replaced_although_the_end_of_its_log_cannot_be_read(
    wide: Wide, left: bytes | None
) -> None:
    """The start that misses the end names this very command."""
    shutil.rmtree(wide.journal)
    if left is None:
        (wide.data / log_end.NAME).unlink()
    else:
        (wide.data / log_end.NAME).write_bytes(left)

    answer = wide.replace("--folder", str(wide.journal))

    assert answer.exit_code == 0, answer.output
    assert all(in_limbo for _, in_limbo in asyncio.run(wide.kept()).values())
    assert wide.on_data("scrub").exit_code == 0


def test_all_disks_lost_are_replaced_at_once(wide: Wide) -> None:
    for folder in (wide.data, wide.journal, *wide.ledger_dirs):
        shutil.rmtree(folder)

    assert wide.replace().exit_code == 0

    assert asyncio.run(wide.kept()) == {}
    for folder in (wide.data, wide.journal):
        with data_folder.held(folder) as files:
            assert boots.load(files) == 0


def test_what_is_no_folder_of_the_bookie_is_not_replaced(wide: Wide) -> None:
    answer = wide.replace("--folder", "/elsewhere")
    assert (answer.exit_code, "--folder: /elsewhere is no folder of" in answer.stderr) == (2, True)


class Roundabout(Wide):
    """A bookie whose folders were given to it as no tool spells them."""

    @property
    def roundabout(self) -> Path:
        return self.folder / "x" / ".."

    @property
    def journal(self) -> Path:
        return self.roundabout / "journal"

    @property
    def ledger_dirs(self) -> tuple[Path, Path]:
        return self.roundabout / "ledgers-1", self.roundabout / "ledgers-2"


def test_folders_that_were_given_with_dots_in_them_are_replaced(tmp_path: Path) -> None:
    place = Roundabout(tmp_path)
    place.data = place.roundabout / "data"
    (tmp_path / "x").mkdir()
    place.initialise()
    assert place.format().exit_code == 0
    assert "/../" in (place.data / "VERSION").read_text()
    shutil.rmtree(place.journal)

    alone = place.replace("--folder", str(tmp_path / "journal"))

    assert alone.exit_code == 0, alone.output
    assert place.on_data("state").exit_code == 0
    for folder in (place.data, place.journal, *place.ledger_dirs):
        shutil.rmtree(folder)
    assert place.replace().exit_code == 0
    assert place.on_data("state").exit_code == 0
    assert place.on_data("cookie", "show", "--metadata", place.metadata).exit_code == 0
