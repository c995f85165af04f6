"""``zonekeeper log cursors``, ``log cursor``, and reading from a cursor, against real bookies."""

import asyncio

import pytest

from tests.shell.log_world import call, data, done, filled, lines, refused
from zonekeeper.log import LogMessage, LogReader, connect
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.logs.log_cursor import CursorTaken
from zonekeeper.placement.base.ids import BookieId, LedgerId

pytestmark = pytest.mark.processes


def consumed(address: str, name: str, cursor: str, count: int) -> None:
    """Open a cursor, and move it behind some messages."""

    async def consume() -> None:
        async with connect(address) as logs:
            held = await logs.cursor(name, cursor, address="10.0.0.7:80")
            async for batch in held.read():
                for one in batch:
                    if one.sequence < count:
                        await held.move(one)

    asyncio.run(consume())


def sequences(address: str, *words: str) -> list[object]:
    return [one["sequence"] for one in lines(address, "read", *words)]


def cursors_of(address: str, name: str) -> dict[object, dict[str, object]]:
    found = data(address, "cursors", name)["cursors"]
    assert isinstance(found, list)
    return {one["cursor"]: one for one in found}


def test_cursors_are_listed_with_position_lag_and_consumer(address: str) -> None:
    filled(address, "cursors/a", 5)
    assert done(address, "cursors", "cursors/a") == b"log cursors/a has no cursor\n"
    consumed(address, "cursors/a", "billing", 3)
    consumed(address, "cursors/a", "audit", 0)
    found = cursors_of(address, "cursors/a")
    assert list(found) == ["audit", "billing"]
    assert (found["billing"]["sequence"], found["billing"]["lag"]) == (3, 2)
    assert found["billing"]["address"] == "10.0.0.7:80"
    assert (found["audit"]["sequence"], found["audit"]["lag"]) == (0, 5)
    age = found["billing"]["ageMs"]
    assert isinstance(age, int)
    assert 0 <= age < 3_600_000
    shown = done(address, "cursors", "cursors/a").decode()
    assert "billing" in shown
    assert "10.0.0.7:80" in shown


def test_reading_at_a_cursor_disturbs_no_consumer_unless_it_moves_it(address: str) -> None:
    filled(address, "cursors/b", 6)
    consumed(address, "cursors/b", "billing", 2)
    before = cursors_of(address, "cursors/b")["billing"]["epoch"]
    assert sequences(address, "cursors/b", "--cursor", "billing") == [2, 3, 4, 5]
    assert cursors_of(address, "cursors/b")["billing"]["epoch"] == before
    words = ("cursors/b", "--cursor", "billing", "--move")
    assert sequences(address, *words, "--max", "2") == [2, 3]
    assert cursors_of(address, "cursors/b")["billing"]["sequence"] == 4
    tailed = lines(address, "tail", *words, "--max", "1")
    assert [one["sequence"] for one in tailed] == [4]
    assert sequences(address, *words) == [5]
    assert sequences(address, *words) == []
    assert sequences(address, "cursors/b", "--cursor", "new", "--move", "--to", "1") == [0, 1]
    assert cursors_of(address, "cursors/b")["new"]["sequence"] == 2


def test_a_wrong_cursor_is_refused(address: str) -> None:
    filled(address, "cursors/c", 2)
    for command in ("read", "tail"):
        words = (command, "cursors/c", "--cursor")
        assert "has no cursor nobody" in refused(address, *words, "nobody")
        assert "cannot be a cursor's name" in refused(address, *words, "a/b")
        assert "cannot be a cursor's name" in refused(address, *words, "a/b", "--move")
        assert "give one of them" in refused(address, *words, "x", "--from", "1")
        assert "name it with --cursor" in refused(address, command, "cursors/c", "--move")
    assert "has no cursor" in refused(
        address, "cursor", "seek", "cursors/c", "nobody", "--to", "1", "--yes"
    )
    assert "has no cursor" in refused(address, "cursor", "delete", "cursors/c", "nobody", "--yes")
    assert "there is no log" in refused(address, "cursors", "cursors/none")
    assert cursors_of(address, "cursors/c") == {}


def test_a_cursor_is_set_anywhere_and_its_consumer_hears_it(address: str) -> None:
    filled(address, "cursors/d", 25, "--rotate-messages", "10")
    consumed(address, "cursors/d", "billing", 2)
    seek = ("cursor", "seek", "cursors/d", "billing", "--yes", "--to")
    for place, sequence in (("7", 7), ("latest", 25), ("earliest", 0), ("25", 25)):
        before = cursors_of(address, "cursors/d")
        would = data(address, *seek[:-2], "--dry-run", "--to", place)
        assert (would["sequence"], would["dryRun"]) == (sequence, True)
        assert cursors_of(address, "cursors/d").keys() == before.keys()
        assert cursors_of(address, "cursors/d")["billing"]["epoch"] == before["billing"]["epoch"]
        assert data(address, *seek, place)["sequence"] == sequence
        assert cursors_of(address, "cursors/d")["billing"]["sequence"] == sequence
    one = str(lines(address, "read", "cursors/d", "--from", "12")[0]["id"])
    assert data(address, *seek, one)["sequence"] == 12
    assert data(address, *seek, "2001-01-01")["sequence"] == 0
    epoch = cursors_of(address, "cursors/d")["billing"]["epoch"]
    assert "ahead of its end" in refused(address, *seek, "26")
    assert "no terminal" in refused(address, "cursor", "seek", "cursors/d", "billing", "--to", "3")
    assert cursors_of(address, "cursors/d")["billing"]["epoch"] == epoch, "it was not taken"

    async def beside_a_consumer() -> None:
        async with connect(address) as logs:
            held = await logs.cursor("cursors/d", "billing")
            await asyncio.to_thread(done, address, *seek, "3")
            with pytest.raises(CursorTaken):
                await held.seek_earliest()

    asyncio.run(beside_a_consumer())


def test_a_cursor_is_deleted_if_a_person_says_so(address: str) -> None:
    filled(address, "cursors/e", 2)
    consumed(address, "cursors/e", "billing", 1)
    delete = ("cursor", "delete", "cursors/e", "billing")
    assert "--yes" in refused(address, *delete)
    assert data(address, *delete, "--dry-run")["dryRun"]
    assert list(cursors_of(address, "cursors/e")) == ["billing"]
    said = done(address, *delete, "--yes").decode()
    assert said == "deleted cursor billing of log cursors/e, at message 1\n"
    assert cursors_of(address, "cursors/e") == {}


def test_a_log_is_shown_with_its_cursors_and_with_what_lacks_copies(address: str) -> None:
    words = ("--rotate-messages", "10", "--keep-bytes", "1")
    filled(address, "cursors/f", 25, *words)
    consumed(address, "cursors/f", "late", 3)
    consumed(address, "cursors/f", "billing", 25)
    shown = data(address, "show", "cursors/f")
    cursors, ledgers = shown["cursors"], shown["ledgers"]
    assert isinstance(cursors, list)
    assert isinstance(ledgers, list)
    assert [(one["cursor"], one["lag"], one["waitedFor"]) for one in cursors] == [
        ("billing", 0, False),
        ("late", 22, True),
    ]
    assert "retention waits for it" in done(address, "show", "cursors/f").decode()
    assert not any(one["underReplicated"] for one in ledgers)
    marked = LedgerId(ledgers[1]["ledger"])

    async def mark() -> None:
        async with connect(address) as logs:
            cluster = logs.client.cluster
            await underreplication.mark(cluster, marked, [BookieId("bk-lost")], at_ms=1)

    asyncio.run(mark())
    found = data(address, "show", "cursors/f")["ledgers"]
    assert isinstance(found, list)
    assert [one["ledger"] for one in found if one["underReplicated"]] == [marked]
    text = done(address, "show", "cursors/f").decode()
    assert "1 ledger under-replicated" in text
    assert "lacking" in text


def test_an_open_log_says_how_far_its_pending_ledger_is_confirmed(address: str) -> None:
    done(address, "create", "cursors/g")

    async def shown() -> tuple[dict[str, object], str]:
        async with connect(address) as logs, logs.writer("cursors/g") as writer:
            for number in range(3):
                await writer.flushed(await writer.append(LogMessage(payload=b"%d" % number)))
            reader: LogReader = logs.reader("cursors/g")
            assert await reader.end() == 3
            as_data = await asyncio.to_thread(data, address, "show", "cursors/g")
            return as_data, (await asyncio.to_thread(done, address, "show", "cursors/g")).decode()

    as_data, text = asyncio.run(shown())
    ledgers = as_data["ledgers"]
    assert isinstance(ledgers, list)
    assert as_data["pendingLedgers"] == [ledgers[-1]["ledger"]]
    assert ledgers[-1]["lastConfirmed"] >= 3
    assert "has no end, and is confirmed up to entry" in text
    assert call(address, "show", "cursors/g").exit_code == 0
    assert data(address, "show", "cursors/g")["pendingLedgers"] == []
