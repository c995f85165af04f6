"""A lost record is made anew: nothing acknowledged is lost, and nobody of before writes on."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill, ledgers, sequences
from tests.log.logging_lab import NAME, SHORT, message, numbers, overwrite
from tests.log.sessions.test_collecting import collected, left_behind
from zonekeeper.client.base.errors import MetadataFailed
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats import batches, openings
from zonekeeper.log.formats.openings import ChainedOpening, Predecessor
from zonekeeper.log.sessions.rebuilding import SeveralLogsError
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats import ledger_format
from zonekeeper.metadata.formats.ledger_metadata import LedgerState
from zonekeeper.metadata.formats.log_record import (
    LogDeleting,
    LogRecord,
    LogRules,
    LogTaken,
)
from zonekeeper.metadata.formats.malformed import UnsupportedError
from zonekeeper.metadata.ledgers import ledgers as stored_ledgers
from zonekeeper.metadata.ledgers import presences
from zonekeeper.metadata.logs import log_rebuilding, log_stamp, logs
from zonekeeper.metadata.logs.logs import NoLogError, RestoredRootError
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId


async def lose(log: LogClient, name: str = NAME) -> None:
    """Remove the record of a log with its pages, as a wrong command would."""
    store, where = log.client.cluster.store, logs.path(log.client.cluster, name)
    todo = [where]
    while todo:
        children = await store.children(todo[-1]) or ()
        if children:
            todo += [f"{todo[-1]}/{child}" for child in children]
        else:
            await store.delete(todo.pop(), version=None)


def told(record: LogRecord) -> LogRecord:
    """Give what a rebuild can know of a record."""
    return replace(record, writer=None, created_ms=0)


@played()
async def test_a_record_that_was_removed_is_made_anew(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 25)
        await fill(log, 12)
        before = await log.record(NAME)
        await lose(log)

        rebuilt = await log.rebuild(NAME, rules=SHORT)

        assert told(rebuilt.record) == told(before)
        assert rebuilt.left_out == ()
        assert await log.record(NAME) == rebuilt.record
        assert await sequences(log) == list(range(37))
        await fill(log, 3)
        assert await sequences(log) == list(range(40))


@played()
async def test_a_long_log_gets_its_pages_back(lab: Lab) -> None:
    """Its last ledger is not full: no rebuild knows one that was made ahead, and then dropped."""
    async with connected(lab) as log:
        rules = LogRules(rotate_messages=2)
        await log.create(NAME, rules)
        await fill(log, 219)
        before = await log.record(NAME)
        assert before.next_page == 2
        await lose(log)
        assert told((await log.rebuild(NAME, rules=rules)).record) == told(before)
        assert await sequences(log) == list(range(219))
        await log.trim(NAME, 50)
        await fill(log, 1)
        assert await sequences(log) == list(range(50, 220))


async def outlived(log: LogClient, other: LogClient) -> None:
    """Write, while another client loses the record and makes it anew."""
    async with log.writer(NAME) as writer:
        await writer.append_many(numbers(5, 3))
        await writer.stored(7)
        await lose(other)
        await writer.append_and_wait(message(8), stored=True)
        assert (await other.rebuild(NAME, rules=SHORT)).record.unended == ()
        for number in range(9, 40):
            await writer.append_and_wait(message(number), stored=True)


@played()
async def test_the_writer_of_a_lost_record_loses_nothing_that_it_acknowledged_and_ends(
    lab: Lab,
) -> None:
    async with connected(lab) as log, connected(lab, "other") as other:
        await log.create(NAME, SHORT)
        await fill(log, 5)
        with pytest.raises(LogTaken):
            await outlived(log, other)
        assert (await sequences(other))[:9] == list(range(9))
        await fill(other, 1)
        assert await sequences(other) == list(range(len(await sequences(other))))


@played()
async def test_a_trimmed_log_begins_at_the_first_ledger_that_is_left(lab: Lab) -> None:
    """A start inside a ledger stood in the record only: messages before it are back."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 35)
        await log.trim(NAME, 23)
        before = await log.record(NAME)
        await lose(log)
        record = (await log.rebuild(NAME, rules=SHORT)).record
        assert (record.start_sequence, record.gone) == (20, before.gone)
        assert await sequences(log) == list(range(20, 35))
        await fill(log, 1)
        await log.trim(NAME, 35)
        assert await sequences(log) == [35]


# ── what counts ──


async def written_apart(log: LogClient, opening: ChainedOpening | None, epoch: int) -> LedgerId:
    """Write a ledger of the log that is never added to the record."""
    record = await log.record(NAME)
    writer = await log.client.create(custom=log_stamp.custom(NAME, record.id, epoch))
    if opening is not None:
        await writer.append_and_wait(openings.build(opening))
    await writer.close()
    return writer.ledger_id


def continuing(record: LogRecord, sequence: int) -> ChainedOpening:
    """Make an opening that continues the last ledger of a log."""
    last = record.ledgers[-1]
    assert last.end is not None
    return ChainedOpening(
        log_id=bytes.fromhex(record.id),
        epoch=record.epoch,
        name=NAME,
        sequence=sequence,
        before=Predecessor(ledger=last.id, last_entry=last.end.last_entry),
    )


@played()
async def test_a_ledger_that_was_never_added_has_no_entry_and_does_not_count(lab: Lab) -> None:
    """A writer adds a ledger before its first entry (L10)."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 15)
        mine = await written_apart(log, None, epoch=1)
        await lose(log)
        rebuilt = await log.rebuild(NAME)
        assert rebuilt.left_out == (mine,)
        assert rebuilt.record.last_ledger == mine, "its id never comes back"
        assert await sequences(log) == list(range(15))


@played()
async def test_a_ledger_with_an_opening_that_continues_the_log_counts(lab: Lab) -> None:
    """Nobody can tell whether its answer arrived: to leave it out might lose what was told."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 15)
        opening = continuing(await log.record(NAME), 15)
        mine = await written_apart(log, opening, epoch=1)
        assert opening.before is not None
        further = EntryId(opening.before.last_entry + 1)
        wrong = replace(opening, before=replace(opening.before, last_entry=further))
        dropped = await written_apart(log, wrong, epoch=1)
        await lose(log)
        rebuilt = await log.rebuild(NAME)
        assert rebuilt.record.ledgers[-1].id == mine
        assert rebuilt.left_out == (dropped,)
        await fill(log, 2)
        assert await sequences(log) == list(range(17))


@played()
async def test_a_ledger_that_was_lost_too_is_named_and_nothing_is_guessed(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 35)
        record = await log.record(NAME)
        await lose(log)
        await log.client.delete(record.ledgers[1].id)
        with pytest.raises(LogDamaged, match=f"ledger {record.ledgers[1].id} is gone"):
            await log.rebuild(NAME)
        with pytest.raises(NoLogError):
            await log.record(NAME)
        rebuilt = await log.rebuild(NAME, without=[one.id for one in record.ledgers[2:]])
        assert await sequences(log) == list(range(10))
        assert rebuilt.record.last_ledger == record.last_ledger


@played()
async def test_without_stamps_openings_say_which_ledgers_are_of_the_log(lab: Lab) -> None:
    """So it is after `metadata rebuild`: hints of bookies carry no custom metadata."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 25)
        writer = await log.client.create()
        await writer.append_and_wait(b"no opening")
        await writer.close()
        before = await log.record(NAME)
        await lose(log)
        for ledger_id in await ledgers(log.client):
            await unstamped(log, ledger_id)
        assert told((await log.rebuild(NAME, rules=SHORT)).record) == told(before)
        assert await sequences(log) == list(range(25))


@played()
async def test_a_ledger_whose_writer_told_nobody_what_is_confirmed_is_found(lab: Lab) -> None:
    """So it is at a rotation: the opening and the first batch go out together, and are stored."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 12)
        opening = openings.build(continuing(await log.record(NAME), 12))
        writer = await log.client.create()
        await writer.append(opening)
        await writer.append(batches.build([message(12)], place=0, wall_ms=1_000))
        await writer.flushed(1)
        writer.halt()
        seen = await log.client.open(writer.ledger_id, recover=False)
        assert seen.last_confirmed == NO_ENTRY
        await lose(log)
        for ledger_id in await ledgers(log.client):
            await unstamped(log, ledger_id)
        await log.rebuild(NAME, rules=SHORT)
        assert await sequences(log) == list(range(13))


async def unstamped(log: LogClient, ledger_id: LedgerId) -> None:
    """Take a ledger's custom metadata away."""
    cluster = log.client.cluster
    stored = await stored_ledgers.read(cluster, ledger_id, sync=True)
    assert stored is not None
    ours = {presences.KEY, log_stamp.NAME_KEY, log_stamp.ID_KEY, log_stamp.EPOCH_KEY}
    custom = tuple(pair for pair in stored.metadata.custom if pair[0] not in ours)
    value = ledger_format.render(replace(stored.metadata, custom=custom))
    await overwrite(cluster, stored_ledgers.path(cluster, ledger_id), value)


# ── an export that was restored ──


@played()
async def test_a_record_of_an_older_export_gets_the_ledgers_that_came_later(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 12)
        await log.trim(NAME, 3)
        await log.cursor(NAME, "billing")
        cluster, where = log.client.cluster, logs.path(log.client.cluster, NAME)
        old = await cluster.store.get(where, sync=True)
        assert old is not None
        await fill(log, 30)
        await overwrite(cluster, where, old.value)  # as an import does

        rebuilt = await log.rebuild(NAME)

        record = rebuilt.record
        assert (record.start_sequence, record.rules, record.unended) == (3, SHORT, ())
        assert await sequences(log) == list(range(3, 42))
        assert sorted(await log.cursors(NAME)) == ["billing"]
        await fill(log, 1)
        assert await sequences(log) == list(range(3, 43))


async def raw_ledgers(log: LogClient) -> dict[LedgerId, bytes]:
    """Give the metadata of all ledgers as it stands."""
    cluster, found = log.client.cluster, {}
    for ledger_id in await ledgers(log.client):
        node = await cluster.store.get(stored_ledgers.path(cluster, ledger_id), sync=True)
        assert node is not None
        found[ledger_id] = node.value
    return found


@played()
async def test_a_root_that_was_set_back_and_rebuilt_from_hints_loses_no_message(lab: Lab) -> None:
    """An import brings the old record back, and `metadata rebuild` the later ledgers."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        cluster, where = log.client.cluster, logs.path(log.client.cluster, NAME)
        async with log.writer(NAME) as writer:
            await writer.append_many(numbers(0, 5))
            await writer.stored(4)
            old, exported = await cluster.store.get(where, sync=True), await raw_ledgers(log)
            assert old is not None
            for number in range(5, 35):
                await writer.append_and_wait(message(number), stored=True)
        later = await raw_ledgers(log)

        mark = restored.render(Restored(at_ms=1, high=1), cluster.instance)
        await cluster.store.create(cluster.root.beside("restored"), mark)
        await overwrite(cluster, where, old.value)
        for ledger_id in later:
            path = stored_ledgers.path(cluster, ledger_id)
            if ledger_id in exported:
                await overwrite(cluster, path, exported[ledger_id])
            else:
                await cluster.store.delete(path, version=None)
        for call in (log.rebuild(NAME), fill(log, 1)):
            with pytest.raises(RestoredRootError):
                await call

        for ledger_id in later.keys() - exported.keys():
            path = stored_ledgers.path(cluster, ledger_id)
            whole = ledger_format.parse(later[ledger_id])
            hinted = replace(
                whole, state=LedgerState.OPEN, last_entry=NO_ENTRY, length=0, custom=()
            )
            await cluster.store.create(path, ledger_format.render(hinted), make_parents=True)
        await cluster.store.delete(cluster.root.beside("restored"), version=None)

        rebuilt = await log.rebuild(NAME)

        assert rebuilt.left_out == ()
        assert await sequences(log) == list(range(35))
        await fill(log, 1)
        assert await sequences(log) == list(range(36))


@played()
async def test_ledgers_below_the_start_of_an_older_record_stay_out(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 35)
        record = await log.record(NAME)
        start = await log.reader(NAME).at_sequence(23)
        await logs.trim(log.client.cluster, NAME, record.id, start, 23)
        rebuilt = await log.rebuild(NAME)
        assert rebuilt.left_out == tuple(one.id for one in record.ledgers[:2])
        assert await sequences(log) == list(range(23, 35))


@played()
async def test_while_the_root_is_restored_or_the_log_deleted_nothing_is_rebuilt(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 5)
        record = await log.record(NAME)
        cluster = log.client.cluster
        path = cluster.root.beside("restored")
        mark = restored.render(Restored(at_ms=1, high=1), cluster.instance)
        await cluster.store.create(path, mark)
        with pytest.raises(RestoredRootError, match="nothing was changed"):
            await log.rebuild(NAME)
        await cluster.store.delete(path, version=None)
        await logs.begin_deletion(cluster, NAME, record.id)
        with pytest.raises(LogDeleting):
            await log.rebuild(NAME)
        await left_behind(log, epoch=1)
        await log.delete(NAME)
        with pytest.raises(NoLogError, match="deleted on purpose"):
            await log.rebuild(NAME)


# ── what is asked for wrongly ──


@played()
async def test_nothing_or_several_logs_to_rebuild_are_refused(lab: Lab) -> None:
    async with connected(lab) as log:
        with pytest.raises(NoLogError, match="nothing to rebuild it from"):
            await log.rebuild(NAME)
        ids = []
        for count in (3, 5):
            await log.create(NAME)
            await fill(log, count)
            ids.append((await log.record(NAME)).id)
            await lose(log)
        with pytest.raises(SeveralLogsError, match=ids[0]):
            await log.rebuild(NAME)
        with pytest.raises(NoLogError, match="with the id"):
            await log.rebuild(NAME, log_id="ab" * 16)
        await log.rebuild(NAME, log_id=ids[1])
        assert await sequences(log) == list(range(5))


# ── a rebuild that dies ──


async def dying(log: LogClient, at: int, rules: LogRules | None = None) -> bool:
    """Rebuild, with a store that fails at a write; False: there were not so many."""
    store, count = log.client.cluster.store, 0
    commit: Callable[..., Awaitable[object]] = store.commit

    async def failing(*writes: object, **options: object) -> object:
        nonlocal count
        count += 1
        if count == at:
            raise StoreUnavailableError("it fails here", store="a test")
        return await commit(*writes, **options)

    patch = pytest.MonkeyPatch()
    patch.setattr(store, "commit", failing)
    patch.setattr("zonekeeper.metadata.store.update.ATTEMPTS_MAX", 1)
    try:
        await log.rebuild(NAME, rules=rules)
    except MetadataFailed:
        return True
    finally:
        patch.undo()
    return False


@played()
async def test_a_rebuild_that_dies_anywhere_is_begun_again_and_shows_no_part_of_a_log(
    lab: Lab,
) -> None:
    async with connected(lab) as log:
        await log.create(NAME, LogRules(rotate_messages=1))
        await fill(log, 70)
        whole = (await log.record(NAME)).ledgers[-1]
        at, placeholders = 1, 0
        while True:
            await lose(log)
            if not await dying(log, at, LogRules(rotate_messages=1)):
                break
            where = logs.path(log.client.cluster, NAME)
            if await log.client.cluster.store.exists(where, sync=True):
                placeholders += 1
                for call in (log.record(NAME), fill(log, 1), sequences(log)):
                    with pytest.raises(
                        (UnsupportedError, MetadataFailed), match="is being rebuilt"
                    ):
                        await call
            at += 1
            await log.rebuild(NAME, rules=LogRules(rotate_messages=1))
            assert (await log.record(NAME)).ledgers[-1] == whole
        assert placeholders >= 1
        assert await sequences(log) == list(range(70))


@played()
async def test_what_the_record_said_before_survives_a_rebuild_that_died(lab: Lab) -> None:
    async with connected(lab) as log:
        rules = LogRules(rotate_messages=1, keep_bytes=1 << 40)
        await log.create(NAME, rules)
        await fill(log, 70)
        await log.trim(NAME, 3)
        cursor = await log.cursor(NAME, "billing")
        placeholders, at = 0, 1
        while await dying(log, at):
            place = await log_rebuilding.look(log.client.cluster, NAME)
            placeholders += place.is_placeholder
            assert place.record is not None
            assert (place.record.rules, place.record.start_sequence) == (rules, 3)
            at += 1
        assert placeholders >= 1
        record = await log.record(NAME)
        assert (record.rules, record.start_sequence) == (rules, 3)
        assert await sequences(log) == list(range(3, 70))
        assert (await log.cursors(NAME))["billing"] == cursor.mark


@played()
async def test_the_epoch_is_above_that_of_each_ledger_that_was_made(lab: Lab) -> None:
    """So a later claim has none of those epochs, and what is left of them can be collected."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 5)
        mine = await left_behind(log, epoch=7)
        await lose(log)
        assert (await log.rebuild(NAME)).record.epoch == 7
        await fill(log, 1)
        assert (await collected(log))[1] == [mine]
        assert await sequences(log) == list(range(6))


@played()
async def test_a_log_that_is_changed_while_it_is_rebuilt_is_not_written_over(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 5)
        cluster = log.client.cluster
        seen = await log_rebuilding.look(cluster, NAME)
        await fill(log, 5)
        record = await log.record(NAME)
        with pytest.raises(LogTaken, match="changed by another program"):
            await log_rebuilding.put(cluster, NAME, seen, record, [])
        assert await log.record(NAME) == record
