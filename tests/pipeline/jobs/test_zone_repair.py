"""The plan of a repair, and its command: each marked ledger in one task, and what is said first."""

import asyncio
import dataclasses
import pickle
from array import array
from collections.abc import Callable, Coroutine, Iterator

import pytest
from pyspark.sql.types import StructType

from tests.pipeline import gates
from tests.pipeline.gates import OpenGates
from tests.replication.decisions.test_what_if import ledger
from zonekeeper import pipeline
from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.cluster.cluster import Cluster, open_cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.pipeline.jobs import command_line, zone_repair
from zonekeeper.pipeline.jobs.repair_task import RepairPlan
from zonekeeper.pipeline.jobs.zone_repair import MarkedPartition, RepairReader, ZoneRepairSource
from zonekeeper.pipeline.planning import id_ranges, job_options, worker_repairer
from zonekeeper.pipeline.reports import fault_rows, repair_rows
from zonekeeper.placement.base.ids import BookieId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location

IDS = [0, 1, 2, 9_999, 10_000, 2**31 - 1, 2**63 - 1]
NAMES = [part.split()[0] for part in fault_rows.COLUMNS.split(", ")]


@pytest.fixture
def filled(pipeline_root: str) -> str:
    """A root with marked ledgers, and one ledger that is not marked."""

    async def fill(cluster: Cluster) -> None:
        for one in [*IDS, 77]:
            metadata = dataclasses.replace(ledger("a-0", "b-0", "c-0"), create_token=7)
            await ledgers.create(cluster, metadata, ledger_id=LedgerId(one))
        for one in IDS:
            await underreplication.mark(cluster, LedgerId(one), [BookieId("c-0")], at_ms=1)

    changed(pipeline_root, fill)
    return pipeline_root


@pytest.fixture
def gate(filled: str) -> Iterator[OpenGates]:
    with gates.opened(filled) as opened:
        yield opened


@pytest.fixture
def address(filled: str, gate: OpenGates) -> str:
    """The root, with gates that are open."""
    return filled


@pytest.fixture
def with_a_loss(address: str) -> str:
    """The root with the bookie that the marks name, which is away."""
    where = Location(ZoneName("c"), UpgradeDomain("ud-0"))

    async def lose(cluster: Cluster) -> None:
        cookie = Cookie(
            bookie=BookieId("c-0"),
            journal_dirs=("/j",),
            ledger_dirs=("/l",),
            instance=cluster.instance,
            location=where,
        )
        await cookie_store.create(cluster, cookie)

    changed(address, lose)
    return address


def changed(address: str, change: Callable[[Cluster], Coroutine[None, None, None]]) -> None:
    async def work() -> None:
        store = await open_store(address, must_exist=True)
        try:
            await change(await open_cluster(store))
        finally:
            await store.close()

    asyncio.run(work())


def planned(address: str, **options: str) -> RepairReader:
    return ZoneRepairSource({"metadata": address, **options}).reader(StructType())


def test_every_marked_ledger_is_in_exactly_one_task_and_no_other_is(address: str) -> None:
    reader = planned(address, **{"ledgers-per-task": "3"})
    sent = [pickle.loads(pickle.dumps(one)) for one in reader.partitions()]
    shares = [
        [one for first, last in task.value for one in range(first, last + 1)] for task in sent
    ]
    assert shares == [IDS[0::3], IDS[1::3], IDS[2::3]]


def test_a_task_is_sent_its_own_ledgers_only(address: str) -> None:
    reader = planned(address)
    sent = pickle.loads(pickle.dumps(reader))
    assert isinstance(sent, RepairReader)
    assert sent.partitions() == []
    assert len(reader.partitions()) == 1, "the planner keeps them"


def test_with_a_rate_as_many_tasks_as_share_it_and_the_rate_is_divided(address: str) -> None:
    texts = {"ledgers-per-task": "1", "at-once": "2"}
    assert len(planned(address, **texts).partitions()) == len(IDS)
    limited = planned(address, **texts, **{"bytes-per-second": "10KiB"})
    assert len(limited.partitions()) == 2
    plan = limited._plan
    assert isinstance(plan, RepairPlan)
    assert plan.share_bytes_per_second == 5 << 10
    few = planned(address, ledgers="9999", **{"at-once": "4", "bytes-per-second": "10KiB"})
    assert [one.value for one in few.partitions()] == [((9_999, 9_999),)]
    assert few._plan.share_bytes_per_second == 10 << 10  # type: ignore[attr-defined] # a RepairPlan


def test_nothing_is_marked_is_one_task_without_ledgers(address: str) -> None:
    (only,) = planned(address, ledgers="77").partitions()
    assert only.value == ()


def test_a_share_of_many_ledgers_is_eight_bytes_each() -> None:
    ids = array("q", range(0, 2_000_000, 2))
    assert len(pickle.dumps(MarkedPartition(ids))) < 8 * len(ids) + 200


def test_ranges_have_exactly_the_ids() -> None:
    some = list(map(LedgerId, (1, 2, 3, 7, 9, 10)))
    assert id_ranges.runs(some) == ((1, 3), (7, 7), (9, 10))
    assert id_ranges.runs([]) == ()


def test_a_worker_s_claims_have_its_name_and_no_letter_that_cannot_stand_there() -> None:
    assert cookies.is_bookie_id(worker_repairer.name())
    assert worker_repairer.name().startswith("zone-repair-")


def test_the_columns_are_those_of_the_rows() -> None:
    seven = LedgerId(7)
    done, spread, claimed, left, copied = (
        dict(zip(NAMES, row, strict=True))
        for row in (
            repair_rows.of_done(seven),
            repair_rows.of_spread(seven),
            repair_rows.of_claimed(seven),
            repair_rows.of_obstacle(seven, BookieId("c-0"), "held", "zone c\nis held"),
            repair_rows.of_copied(3, 4),
        )
    )
    assert (done["ledger"], done["finding"], done["error"]) == (7, "done", None)
    assert (spread["finding"], claimed["finding"]) == ("spread", "claimed")
    assert (left["bookie"], left["finding"], left["error"]) == ("c-0", "held", "zone c is held")
    assert (copied["ledger"], copied["ledgers"], copied["bytes"]) == (None, 3, 4)


# ── the command ──


@pytest.fixture(autouse=True)
def _with_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends before Spark begins needs no Java."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")


def test_a_dry_run_says_what_is_marked_and_ends(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["zone-repair", "--metadata", address]
    assert command_line.main([*words, "--dry-run"]) == command_line.FOUND
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        f"marked for repair: {len(IDS)} ledgers",
        f"not in these figures: copies of {len(IDS)} ledgers on bookies without a cookie",
    ]
    assert told.err == ""
    assert command_line.main([*words, "--dry-run", "yes", "--ledgers", "77"]) == 0
    assert capsys.readouterr().out.splitlines() == ["marked for repair: 0 ledgers"]


def test_a_dry_run_takes_the_options_of_the_job(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["zone-repair", "--metadata", address, "--dry-run"]
    assert command_line.main([*words, "--bytes-per-second", "1"]) == command_line.NOT_DONE
    assert '--bytes-per-second: "1"' in capsys.readouterr().err
    assert command_line.main([*words, "--currency", "EUR"]) == command_line.NOT_DONE
    assert "--price-per-gb: not given" in capsys.readouterr().err
    assert command_line.main([*words, "--unwatched", "yes"]) == command_line.NOT_DONE
    assert "unrecognized arguments: --unwatched" in capsys.readouterr().err


def test_the_function_refuses_what_is_the_command_s_own(address: str) -> None:
    with pytest.raises(pipeline.NotRead, match="dry-run: unknown"):
        ZoneRepairSource({"metadata": address, "dry-run": "yes"}).reader(StructType())


def test_what_is_marked_when_the_job_has_ended_is_left(address: str) -> None:
    options = job_options.parse({"metadata": address}, job_options.EVERY_JOB)
    left = zone_repair.after(options)
    assert left.found
    assert left.lines[0].startswith(f"marked for repair now: {len(IDS)} ledgers")
    some = job_options.parse({"metadata": address, "ledgers": "77"}, job_options.EVERY_JOB)
    assert zone_repair.after(some) == dataclasses.replace(
        left, lines=("no ledger is marked for repair any more",), found=False
    )


def test_while_the_zone_is_held_the_preflight_is_shown_and_the_job_is_refused(
    with_a_loss: str, gate: OpenGates, capsys: pytest.CaptureFixture[str]
) -> None:
    gate.hold("c")
    with pytest.raises(pipeline.NotRead, match="because repair is held: zone c is held"):
        planned(with_a_loss)
    prices = ("--price-per-gb", "1", "--currency", "EUR", "--price-as-of", "2026-11-27")
    words = ["zone-repair", "--metadata", with_a_loss, *prices, "--price-source", "the list"]
    for more in ([], ["--dry-run"]):
        assert command_line.main([*words, *more]) == command_line.NOT_DONE
        told = capsys.readouterr()
        marked, lost, copied, *others = told.out.splitlines()
        assert marked == f"marked for repair: {len(IDS)} ledgers"
        assert lost == "lost: c-0"
        assert copied.startswith("to be copied: ")
        assert copied.endswith(" EUR (the list, 2026-11-27)")
        assert f"held: {len(IDS)} ledgers are left" in others
        assert told.err.startswith("Error: nothing was read or copied, because repair is held: ")
    gate.open("c")
    (only,) = planned(with_a_loss).partitions()
    assert [one for first, last in only.value for one in range(first, last + 1)] == IDS


def test_a_loss_that_is_not_marked_is_something_that_is_left(
    with_a_loss: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["zone-repair", "--metadata", with_a_loss, "--dry-run", "--ledgers", "77"]
    assert command_line.main(words) == command_line.FOUND
    assert "not marked: no mark names c-0" in capsys.readouterr().out


def test_the_driver_says_nothing_while_nothing_holds(address: str) -> None:
    options = job_options.parse({"metadata": address}, job_options.EVERY_JOB)
    with zone_repair.held(options) as asked:
        assert asked() is None
