"""A whole root as a file: written, read back, compared; and never half a file or half a root."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.metadata import weather
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import repair_controls, restored, timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.repair_controls import PeriodicCheck
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.metadata.commands import saving
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import deletions, ledger_ids, ledger_listing, ledgers
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.saving import (
    export_diff,
    export_format,
    exporting,
    importing,
    private_file,
)
from zonekeeper.metadata.saving.export_format import ExportNode
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import VALUE_SIZE_BYTES_MAX
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
NOW_MS = 1_800_000_000_000
SINCE_2020_S = 222_163_200
NEW = LedgerMetadata(
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    fragments=(Fragment(EntryId(0), (BookieId("a"),)),),
    digest=Digest.CRC32C,
    password=b"",
    create_token=9,
)


def event(number: int) -> Event:
    return Event(
        at_ms=number, kind="held", subject="zone a", by="test", reason="r", token=f"t{number}"
    )


async def fill(cluster: Cluster) -> None:
    """Something of everything, and ephemeral nodes that must not be exported."""
    for ledger_id in (0, 1, 70_000, 5 << 32):
        await ledgers.create(cluster, NEW, ledger_id=LedgerId(ledger_id))
    await cookie_store.create(
        cluster,
        Cookie(
            bookie=BookieId("a"),
            journal_dirs=("/j",),
            ledger_dirs=("/l",),
            instance=cluster.instance,
            location=Location(ZoneName("z"), UpgradeDomain("ud-0")),
        ),
    )
    for number in range(12):
        await timeline.append(cluster, event(number))
    await cluster.store.create(cluster.root.writable(BookieId("a")), b"info", ephemeral=True)


async def exported(cluster: Cluster) -> list[str]:
    return [line async for line in exporting.lines(cluster)]


@pytest.fixture
async def export(memory: MemoryPlace) -> list[str]:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    await fill(cluster)
    return await exported(cluster)


@pytest.fixture
async def empty() -> MemoryStore:
    """A store in which nothing is."""
    store = await MemoryPlace().open()
    assert isinstance(store, MemoryStore)
    await store.delete(store.root, version=None)
    return store


def values(lines: list[str]) -> dict[str, bytes]:
    return {
        part.suffix: part.value
        for part in export_format.read(lines)
        if isinstance(part, ExportNode)
    }


async def test_an_export_has_what_lasts_and_nothing_else(export: list[str]) -> None:
    found = values(export)
    assert "/cookies/a" in found
    assert "/available" in found
    assert "/available/a" not in found
    assert "/00/0007/L0000" in found


async def test_the_same_root_gives_the_same_bytes(cluster: Cluster, other: Cluster) -> None:
    await fill(cluster)
    assert await exported(cluster) == await exported(other)


async def test_an_import_brings_everything_back(export: list[str], empty: MemoryStore) -> None:
    done = await importing.run(empty, lambda: export, now_ms=NOW_MS)
    before, after = values(export), values(await exported(done.cluster))
    added = after.keys() - before.keys()
    high = f"/idgen-long/{ledger_ids.high_directory(SINCE_2020_S)}"
    assert added == {"/idgen-long", high, ".zonekeeper/restored"}
    assert {suffix: after[suffix] for suffix in before} == before
    assert [one.id async for one in ledger_listing.all_of(done.cluster)] == [0, 1, 70_000, 5 << 32]
    assert await timeline.newest(done.cluster) == [event(number) for number in reversed(range(12))]


async def test_a_restored_root_is_marked_and_gives_ids_that_no_ledger_had(
    export: list[str], empty: MemoryStore
) -> None:
    done = await importing.run(empty, lambda: export, now_ms=NOW_MS)
    mark = await restored.read(done.cluster)
    assert mark is not None
    assert mark.high == SINCE_2020_S
    assert (await ledgers.create(done.cluster, NEW)).id == SINCE_2020_S << 32
    await timeline.append(done.cluster, event(99))
    assert (await timeline.newest(done.cluster))[0] == event(99), "the numbers go on behind"


async def test_the_high_part_is_above_all_that_the_export_knows(
    memory: MemoryPlace, empty: MemoryStore
) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(7 << 32))
    directory = cluster.root.below(f"idgen-long/{ledger_ids.high_directory(9)}")
    await cluster.store.create(directory, make_parents=True)
    lines = await exported(cluster)
    assert (await importing.run(empty, lambda: lines, now_ms=0)).high == 10


async def test_a_ledger_with_the_last_id_of_all_does_not_stop_an_import(
    memory: MemoryPlace, empty: MemoryStore
) -> None:
    """Ids that an application chose may be any; only those of counters must not come again."""
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(2**63 - 1))
    lines = await exported(cluster)
    done = await importing.run(empty, lambda: lines, now_ms=NOW_MS)
    assert done.high == SINCE_2020_S
    assert (await ledgers.create(done.cluster, NEW)).id == SINCE_2020_S << 32


async def test_counters_that_are_used_up_are_said_before_a_byte_is_written(
    memory: MemoryPlace, empty: MemoryStore
) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    last = ledger_ids.high_directory(ledger_ids.HIGH_MAX)
    await cluster.store.create(cluster.root.below(f"idgen-long/{last}"), make_parents=True)
    lines = await exported(cluster)
    with pytest.raises(ledger_ids.IdsUsedUpError):
        await importing.run(empty, lambda: lines, now_ms=NOW_MS)
    assert not await empty.exists(empty.root)


async def test_large_values_are_imported_whatever_stands_before_them(
    memory: MemoryPlace, empty: MemoryStore
) -> None:
    """Together they would be more than a transaction may hold."""
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    for name, size_bytes in (("a", 250_000), ("b", VALUE_SIZE_BYTES_MAX), ("c", 250_000)):
        await cluster.store.create(cluster.root.beside(name), b"x" * size_bytes)
    lines = await exported(cluster)
    done = await importing.run(empty, lambda: lines, now_ms=NOW_MS)
    assert values(lines).items() <= values(await exported(done.cluster)).items()


async def test_the_mark_and_the_high_part_come_with_the_root(
    export: list[str], empty: MemoryStore
) -> None:
    """A process that sees the root sees that it is restored: they are of one transaction."""
    empty.weather = stopping_after(2)
    with pytest.raises(StoreError):
        await importing.run(empty, lambda: export, now_ms=NOW_MS)
    empty.weather = lambda _: Passage()
    cluster = await clusters.open_cluster(empty)
    assert await restored.read(cluster) is not None
    assert await ledger_ids.allocate(cluster) >= SINCE_2020_S << 32


def stopping_after(writes: int) -> Callable[[RequestKind], Passage]:
    """Let so many writes pass, and none after."""
    passed = iter(range(writes))

    def weather(kind: RequestKind) -> Passage:
        if kind is RequestKind.WRITE and next(passed, None) is None:
            return Passage(loss=ExchangeLoss.REQUEST)
        return Passage()

    return weather


@pytest.mark.parametrize("writes", range(1, 20, 3))
async def test_an_import_that_was_interrupted_is_run_again(
    writes: int, export: list[str], empty: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_NODES_MAX", 3)
    empty.weather = stopping_after(writes)
    with pytest.raises(StoreError):
        await importing.run(empty, lambda: export, now_ms=NOW_MS)
    empty.weather = lambda _: Passage()
    done = await importing.run(empty, lambda: export, now_ms=NOW_MS + 60_000)
    after = values(await exported(done.cluster))
    assert {suffix: after[suffix] for suffix in values(export)} == values(export)
    assert await timeline.newest(done.cluster) == [event(number) for number in reversed(range(12))]


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("number", range(0, 16, 2))
async def test_an_import_in_doubt_writes_each_node_once(
    number: int, loss: ExchangeLoss, export: list[str], empty: MemoryStore
) -> None:
    weather.lose(empty, number, loss)
    done = await importing.run(empty, lambda: export, now_ms=NOW_MS)
    assert len(await timeline.newest(done.cluster)) == 12


async def test_after_an_import_ledgers_are_deleted_as_before(
    cluster: Cluster, empty: MemoryStore
) -> None:
    """The store numbers records anew: no number is that of an imported record."""
    deleter = Deleter(by="test", at_ms=NOW_MS)
    wanted = [LedgerId(number) for number in range(deletions.FOLD_EVERY + 20)]
    for ledger_id in wanted:
        await ledgers.create(cluster, NEW, ledger_id=ledger_id)
        await ledgers.delete(cluster, ledger_id, deleter)
    lines = await exported(cluster)
    done = await importing.run(empty, lambda: lines, now_ms=NOW_MS)
    again = await importing.run(empty, lambda: lines, now_ms=NOW_MS)
    assert (done.written > again.written, again.kept >= done.written) == (True, True)
    for number in range(2 * deletions.FOLD_EVERY):
        high = LedgerId(done.high << 32 | number)
        await ledgers.create(done.cluster, NEW, ledger_id=high)
        await ledgers.delete(done.cluster, high, deleter)
        wanted.append(high)
    assert await deletions.recorded(done.cluster, wanted) == set(wanted)
    lines = await exported(done.cluster)
    await empty.close()
    place = MemoryPlace()
    store = await place.open()
    await store.delete(store.root, version=None)
    twice = await importing.run(store, lambda: lines, now_ms=NOW_MS)
    assert await deletions.recorded(twice.cluster, wanted) == set(wanted)
    await place.close()


async def test_a_root_in_use_is_refused_and_not_touched(
    export: list[str], cluster: Cluster
) -> None:
    await ledgers.create(cluster, NEW)
    before = await exported(cluster)
    with pytest.raises(importing.RootInUseError, match="holds a cluster already"):
        await importing.run(cluster.store, lambda: export, now_ms=NOW_MS)
    assert await exported(cluster) == before


async def test_the_mark_of_a_cluster_that_was_here_before_is_replaced(
    export: list[str], empty: MemoryStore
) -> None:
    await empty.create(f"{empty.root}.zonekeeper/restored", b"old", make_parents=True)
    done = await importing.run(empty, lambda: export, now_ms=NOW_MS)
    mark = await restored.read(done.cluster)
    assert mark is not None
    assert mark.at_ms == NOW_MS


async def test_a_mark_is_cleared_by_whoever_saw_it_and_no_other(
    export: list[str], empty: MemoryStore
) -> None:
    done = await importing.run(empty, lambda: export, now_ms=NOW_MS)
    mark = await restored.read(done.cluster)
    assert mark is not None
    with pytest.raises(restored.RestoredAgainError, match="look again"):
        await restored.clear(done.cluster, replace(mark, at_ms=NOW_MS - 1))
    assert await restored.read(done.cluster) == mark
    weather.lose(empty, 0, ExchangeLoss.ANSWER)
    await restored.clear(done.cluster, mark)
    assert await restored.read(done.cluster) is None
    await restored.clear(done.cluster, mark)
    ledger_id = (await ledgers.create(done.cluster, NEW)).id
    assert ledger_id == mark.high << 32, "ids go on in the new high part"


async def test_a_truncated_file_writes_nothing(export: list[str], empty: MemoryStore) -> None:
    with pytest.raises(importing.UnusableFileError, match="truncated"):
        await importing.run(empty, lambda: export[:-1], now_ms=NOW_MS)
    assert not await empty.exists(empty.root)


# ── comparing ──


async def test_differences_are_found_node_by_node(cluster: Cluster) -> None:
    await fill(cluster)
    before = [node async for node in exporting.nodes(cluster)]
    await ledgers.delete(cluster, LedgerId(1), Deleter(by="test", at_ms=1))
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(2))
    await cookie_store.move(cluster, BookieId("a"), Location(ZoneName("y"), UpgradeDomain("ud-0")))

    async def old() -> AsyncIterator[ExportNode]:
        for node in before:
            yield node

    found = [
        f"{one.side.value} {one.suffix}"
        async for one in export_diff.differences(old(), exporting.nodes(cluster))
    ]
    assert found == [
        "- /00/0000/L0001",
        "+ /00/0000/L0002",
        "~ /cookies/a",
        "+ .zonekeeper/deletions",
        "+ .zonekeeper/deletions/d-0000000000",
    ]


# ── the commands ──


@pytest.fixture
def call() -> Callable[..., tuple[int, str]]:
    """Call `zonekeeper metadata`; gives its exit code and all that it says."""

    def run(*words: str, answer: str = "") -> tuple[int, str]:
        result = CliRunner().invoke(saving.metadata, words, input=answer)
        return result.exit_code, result.output

    return run


@pytest.fixture
def addresses(tmp_path: Path) -> tuple[str, str]:
    """Stores on the disk: with a cluster, and with nothing."""
    first, second = (f"sqlite://{tmp_path}/{name}.db?root=/ledgers" for name in ("a", "b"))

    async def prepare() -> None:
        store = await open_store(first)
        await fill(await clusters.initialise(store, INSTANCE))
        await store.close()

    asyncio.run(prepare())
    return first, second


async def check_ran(address: str) -> None:
    """An auditor notes that it has checked."""
    store = await open_store(address)
    cluster = await clusters.open_cluster(store)
    await repair_controls.write_check_time_ms(cluster, PeriodicCheck.REPLICAS, 7)
    await store.close()


def test_the_commands_write_read_and_compare(
    tmp_path: Path, addresses: tuple[str, str], call: Callable[..., tuple[int, str]]
) -> None:
    first, second = addresses
    file = tmp_path / "root.txt"
    code, said = call("export", "--metadata", first, str(file))
    assert (code, "nodes written" in said) == (0, True)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []
    assert call("diff", str(file), first) == (0, "the same\n")
    asyncio.run(check_ran(first))
    code, said = call("diff", str(file), first)
    assert (code, said.startswith("the same (1 node differs only in what")) == (0, True)
    code, said = call("diff", "--all", str(file), first)
    check = "/underreplication/replicascheckctime"
    assert (code, said) == (1, f"+ {check}\n1 node differs\n")
    code, said = call("import", "--metadata", second, str(file))
    assert (code, "marked as restored" in said) == (0, True)
    code, said = call("diff", str(file), second)
    assert code == 1
    assert "+ .zonekeeper/restored" in said
    code, said = call("diff", str(file), str(tmp_path / "nothing"))
    assert (code, "neither a file nor the address of a store" in said) == (2, True)
    code, said = call("import", "--metadata", first, str(file))
    assert code == 2
    assert "holds a cluster already" in said
    file.write_text(file.read_text()[:-10])
    code, said = call("diff", first, str(file))
    assert code == 2
    assert "cut short" in said or "no end" in said
    code, said = call("export", "--metadata", "nonsense", str(tmp_path / "x"))
    assert code == 2
    assert not (tmp_path / "x").exists()
    file.write_bytes(b"\xff")
    assert call("diff", first, str(file))[0] == 2


@pytest.mark.parametrize("before", [None, "an export of long ago"])
def test_an_export_has_passwords_and_only_its_owner_may_read_it(
    tmp_path: Path,
    addresses: tuple[str, str],
    call: Callable[..., tuple[int, str]],
    before: str | None,
) -> None:
    file = tmp_path / "root.txt"

    def break_off() -> None:
        with private_file.written(file):
            (part,) = tmp_path.glob("*.part")
            assert part.stat().st_mode & 0o777 == 0o600, "from the first byte on"
            raise KeyError("in the middle")

    if before is not None:
        file.write_text(before)
        file.chmod(0o644)
    assert call("export", "--metadata", addresses[0], str(file))[0] == 0
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(KeyError):
        break_off()
    assert [path.name for path in tmp_path.glob("root.*")] == ["root.txt"]
    assert call("diff", str(file), addresses[0])[0] == 0, "half a file does not take its place"


def test_a_person_looks_at_the_mark_of_a_restore_and_clears_it(
    tmp_path: Path, addresses: tuple[str, str], call: Callable[..., tuple[int, str]]
) -> None:
    first, second = addresses
    file = str(tmp_path / "root.txt")
    assert call("export", "--metadata", first, file)[0] == 0
    assert call("import", "--metadata", second, file)[0] == 0
    code, said = call("restored", "--metadata", first)
    assert (code, "not marked as restored" in said) == (0, True)
    code, said = call("restored", "--metadata", second)
    assert (code, "from the export with the checksum" in said) == (0, True)
    _, said = call("restored", "--metadata", second, "-o", "json")
    data = json.loads(said)
    assert (data["restored"], data["cleared"], len(data["export"])) == (True, False, 64)
    code, said = call("restored", "--metadata", second, "--clear", "all found", answer="n\n")
    assert (code, "will delete every ledger" in said) == (1, True)
    assert "from the export" in call("restored", "--metadata", second)[1]
    code, said = call("restored", "--metadata", second, "--clear", "\U0001f600" * 512, answer="y\n")
    assert (code, "the mark is cleared" in said) == (0, True)
    assert "not marked as restored" in call("restored", "--metadata", second)[1]

    async def told() -> Event:
        store = await open_store(second)
        newest = await timeline.newest(await clusters.open_cluster(store))
        await store.close()
        return newest[0]

    found = asyncio.run(told())
    assert (found.kind, found.subject, found.reason) == ("cleared", "restored", "\U0001f600" * 512)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 513, "two\nlines", "caf\udce9"])
def test_a_reason_that_cannot_be_kept_is_refused_before_the_mark_is_cleared(
    tmp_path: Path,
    addresses: tuple[str, str],
    call: Callable[..., tuple[int, str]],
    reason: str,
) -> None:
    """The shell makes lone surrogates of bytes that are no UTF-8, and the store takes none."""
    first, second = addresses
    file = str(tmp_path / "root.txt")
    assert call("export", "--metadata", first, file)[0] == 0
    assert call("import", "--metadata", second, file)[0] == 0
    code, said = call("restored", "--metadata", second, "--clear", reason, "--yes")
    assert (code, "one line of 1 to 512 characters" in said) == (2, True)
    assert "from the export" in call("restored", "--metadata", second)[1]
