"""Whose a ledger is: read in metadata, remembered with the ledger, and in doubt never guessed."""

import asyncio
import dataclasses

import pytest

from tests.bookie.hostile import until
from tests.bookie.running import KEY, LEDGER, Outcomes, opening
from tests.bookie.serving.collecting_world import DELETER, NEW
from tests.bookie.serving.test_unknown_ledgers import TOKEN, World, world
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.serving.measuring import MeasuredBookie, Measures
from zonekeeper.metadata.formats.ledger_metadata import (
    OWNER_KEY,
    IllegalChangeError,
    LedgerMetadata,
    check_update,
)
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import carriers, errors

OWNER = "client/ingest"
OWNED: LedgerMetadata = dataclasses.replace(NEW, custom=((OWNER_KEY, OWNER.encode()),))


class Judging:
    """Notes what it was told, and refuses it or not."""

    def __init__(self, *, refuses: bool = False, is_strict: bool = True) -> None:
        self.refuses = refuses
        self.is_strict = is_strict
        self.told: list[str | errors.ProtocolError] = []

    def __call__(self, found: str | errors.ProtocolError) -> errors.ProtocolError | None:
        self.told.append(found)
        if isinstance(found, errors.ProtocolError):
            return found if self.is_strict else None
        return errors.NotPermitted("of another") if self.refuses else None


async def opened(
    there: World, judge: Judging | None, ledger_id: LedgerId = LEDGER, token: int = TOKEN
) -> None:
    outcomes = Outcomes()
    wanted = dataclasses.replace(opening(ledger_id=ledger_id), create_token=token)
    item = carriers.Open(number=0, opening=wanted, judge=judge)
    there.bookie.append((item,), outcomes)
    if (refused := await outcomes.of(0)) is not None:
        raise refused


async def away(ledger_id: LedgerId) -> admission.Standing:
    raise errors.MetadataAway(f"ledger {ledger_id}: the store is away")


@pytest.mark.parametrize("is_strict", [True, False], ids=["held", "warned of"])
async def test_while_the_store_is_away_an_owner_in_doubt_refuses_only_where_owners_are_held(
    *, is_strict: bool
) -> None:
    files, server = MemoryFileSystem(), MemoryServer()
    async with world(files, server) as there:
        await ledgers.create(there.cluster, OWNED, ledger_id=LEDGER)
        await opened(there, Judging())
    async with world(files, server) as there:
        there.bookie.standing = away
        judge = Judging(is_strict=is_strict)
        if is_strict:
            with pytest.raises(errors.MetadataAway):
                await opened(there, judge)
        else:
            await opened(there, judge)
        assert [type(found) for found in judge.told] == [errors.MetadataAway]


async def test_an_opening_of_anothers_ledger_leaves_nothing() -> None:
    async with world() as there:
        await ledgers.create(there.cluster, OWNED, ledger_id=LEDGER)
        judge = Judging(refuses=True)
        with pytest.raises(errors.NotPermitted):
            await opened(there, judge)
        assert judge.told == [OWNER]
        assert there.is_untouched


async def test_the_owner_is_remembered_with_the_ledger_and_read_again_after_a_start() -> None:
    files, server = MemoryFileSystem(), MemoryServer()
    async with world(files, server) as there:
        await ledgers.create(there.cluster, OWNED, ledger_id=LEDGER)
        await opened(there, Judging())
        there.bookie.standing = away
        assert await there.bookie.owner(LEDGER, also_unknown=False) == OWNER
    async with world(files, server) as there:
        assert there.bookie._memory.ledgers[LEDGER].owner is None
        judge = Judging(refuses=True)
        with pytest.raises(errors.NotPermitted):
            await opened(there, judge)
        assert judge.told == [OWNER]
        assert await there.bookie.owner(LEDGER, also_unknown=False) == OWNER


async def test_a_ledger_of_which_nothing_is_here_is_looked_up_only_if_that_leaves_traces() -> None:
    async with world() as there:
        await ledgers.create(there.cluster, OWNED, ledger_id=LEDGER)
        assert await there.bookie.owner(LEDGER, also_unknown=False) == ""
        assert await there.bookie.owner(LEDGER, also_unknown=True) == OWNER
        with pytest.raises(errors.LedgerDeleted, match="nobody knows whose it was"):
            await there.bookie.owner(LedgerId(99), also_unknown=True)


async def test_a_ledger_that_was_deleted_has_no_owner_any_more_and_no_next_ledgers() -> None:
    files, server = MemoryFileSystem(), MemoryServer()
    async with world(files, server) as there:
        await ledgers.create(there.cluster, OWNED, ledger_id=LEDGER)
        await opened(there, Judging())
    async with world(files, server) as there:
        await ledgers.delete(there.cluster, LEDGER, DELETER)
        with pytest.raises(errors.LedgerDeleted):
            await there.bookie.owner(LEDGER, also_unknown=False)
        of_next = dataclasses.replace(
            NEW, create_token=TOKEN + 1, custom=((OWNER_KEY, b"client/next"),)
        )
        await ledgers.create(there.cluster, of_next, ledger_id=LEDGER)
        with pytest.raises(errors.LedgerDeleted, match="another ledger has this id"):
            await there.bookie.owner(LEDGER, also_unknown=False)


@pytest.mark.parametrize("is_remembered", [True, False])
async def test_an_id_that_is_used_again_finds_the_old_ledger_deleted_and_not_anothers(
    *, is_remembered: bool
) -> None:
    """Else the bookie never heard that its ledger is gone, and kept it and refused the new one."""
    files, server = MemoryFileSystem(), MemoryServer()
    async with world(files, server) as there:
        await ledgers.create(there.cluster, OWNED, ledger_id=LEDGER)
        await opened(there, Judging())
    async with world(files, server) as there:
        if is_remembered:
            assert await there.bookie.owner(LEDGER, also_unknown=False) == OWNER
        await ledgers.delete(there.cluster, LEDGER, DELETER)
        of_next = dataclasses.replace(
            NEW, create_token=TOKEN + 1, custom=((OWNER_KEY, b"client/next"),)
        )
        await ledgers.create(there.cluster, of_next, ledger_id=LEDGER)
        storage, judge = there.bookie._storage, Judging(refuses=True)
        with pytest.raises(errors.LedgerDeleted, match="another ledger has this id here"):
            await opened(there, judge, token=TOKEN + 1)
        assert judge.told == []
        assert storage.take_disputed() == {LEDGER: TOKEN}

        served = MeasuredBookie(there.bookie, Measures())  # as in a bookie's process
        assert await served.owner(LEDGER, also_unknown=True, create_token=TOKEN + 1) == ""
        with pytest.raises(errors.LedgerDeleted, match="another ledger has this id here"):
            await there.bookie.fence(LEDGER, KEY, TOKEN + 1)
        assert storage.take_disputed() == {LEDGER: TOKEN}
        if is_remembered:
            for token in (0, TOKEN):
                found = await there.bookie.owner(LEDGER, also_unknown=True, create_token=token)
                assert found == OWNER
            looked = await there.bookie.owner(LEDGER, also_unknown=False, create_token=TOKEN + 1)
            assert looked == OWNER, "what only looks is answered here, so the owner counts"
        assert storage.take_disputed() == {}


class Counted:
    """What metadata says, counted, and held back while ``gate`` is not set."""

    def __init__(self, there: World) -> None:
        self.asked: list[LedgerId] = []
        self.under_way = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._says, there.bookie.standing = there.bookie.standing, self

    async def __call__(self, ledger_id: LedgerId) -> admission.Standing:
        self.asked.append(ledger_id)
        self.under_way += 1
        try:
            await self.gate.wait()
            return await self._says(ledger_id)
        finally:
            self.under_way -= 1


async def test_the_owner_comes_with_the_key_and_of_a_known_ledger_is_read_once() -> None:
    files, server = MemoryFileSystem(), MemoryServer()
    async with world(files, server) as there:
        await ledgers.create(there.cluster, OWNED, ledger_id=LEDGER)
        counted = Counted(there)
        for _ in range(2):
            await opened(there, Judging())
            assert await there.bookie.owner(LEDGER, also_unknown=False) == OWNER
            assert await there.bookie.owner(LEDGER, also_unknown=True) == OWNER
        assert counted.asked == [LEDGER]
    async with world(files, server) as there:
        counted = Counted(there)
        for _ in range(2):
            assert await there.bookie.owner(LEDGER, also_unknown=False) == OWNER
            await opened(there, Judging())
        assert counted.asked == [LEDGER]


async def test_a_caller_whose_owner_does_not_matter_causes_no_read_of_it() -> None:
    files, server = MemoryFileSystem(), MemoryServer()
    async with world(files, server) as there:
        await ledgers.create(there.cluster, OWNED, ledger_id=LEDGER)
        await opened(there, Judging())
    async with world(files, server) as there:
        counted = Counted(there)
        await opened(there, None)
        assert counted.asked == []


@pytest.mark.parametrize(
    "asked", ["the deleted one that is here", "some that were never here, for a fence"]
)
async def test_who_asks_for_deleted_ledgers_slows_down_nobody_who_asks_for_what_is_here(
    asked: str,
) -> None:
    files, server = MemoryFileSystem(), MemoryServer()
    gone, others = LedgerId(LEDGER + 1), [LedgerId(LEDGER + n) for n in (2, 3, 4)]
    async with world(files, server) as there:
        for each in (gone, *others):
            await ledgers.create(there.cluster, OWNED, ledger_id=each)
            await opened(there, Judging(), each)
        await ledgers.delete(there.cluster, gone, DELETER)
    async with world(files, server) as there:
        for number in range(3):
            is_fence = asked != "the deleted one that is here"
            one = LedgerId(LEDGER + 90 + number) if is_fence else gone
            with pytest.raises(errors.LedgerDeleted):
                await there.bookie.owner(one, also_unknown=is_fence)
        counted = Counted(there)
        counted.gate.clear()
        async with asyncio.TaskGroup() as tasks:
            found = [
                tasks.create_task(there.bookie.owner(each, also_unknown=False)) for each in others
            ]
            await until(lambda: counted.under_way == len(others))  # a stranger's come one by one
            counted.gate.set()
        assert [task.result() for task in found] == [OWNER] * len(others)


async def test_what_is_forgotten_takes_its_owner_with_it() -> None:
    async with world() as there:
        await ledgers.create(there.cluster, OWNED, ledger_id=LEDGER)
        await opened(there, Judging())
        ledger = there.bookie._memory.ledgers[LEDGER]
        assert ledger.owner == OWNER
        there.bookie._memory.forgetting(LEDGER, 0)
        assert ledger.owner is None


def test_the_owner_never_changes_and_what_is_no_text_is_nobodys() -> None:
    taken = dataclasses.replace(OWNED, custom=((OWNER_KEY, b"client/thief"),))
    for after in (taken, NEW):
        with pytest.raises(IllegalChangeError, match="owner"):
            check_update(OWNED, after)
    with pytest.raises(IllegalChangeError, match="owner"):
        check_update(NEW, OWNED)
    assert (NEW.owner, OWNED.owner) == ("", OWNER)
    for raw in (b"", b"\xff", b"client/a\n"):
        assert dataclasses.replace(NEW, custom=((OWNER_KEY, raw),)).owner == "?"
