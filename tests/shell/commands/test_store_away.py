"""With the store away, commands end soon: with what processes say over HTTP, or with one line."""

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.shell.reaching.test_last_seen import AUTO, bookie, sight
from tests.support import virtual_time
from zonekeeper.client.api import client as clients
from zonekeeper.client.base.errors import MetadataFailed
from zonekeeper.metadata.commands import exits, opening
from zonekeeper.metadata.store import reachable
from zonekeeper.metadata.store.errors import SessionLostError, StoreError, StoreUnavailableError
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores import settings
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.zookeeper import UNREACHED_STOP_MS
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.shell.commands.autorecovery import autorecovery
from zonekeeper.shell.commands.bookies import bookies
from zonekeeper.shell.commands.endpoints import endpoints
from zonekeeper.shell.commands.plan import plan
from zonekeeper.shell.commands.timeline import timeline
from zonekeeper.shell.commands.top import top
from zonekeeper.shell.commands.zones import zones
from zonekeeper.shell.reaching import last_seen, second_hand
from zonekeeper.shell.reaching.last_seen import KnownProcess
from zonekeeper.shell.reaching.over_http import HttpLimits
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import looking
from zonekeeper.wire.running.looking import Page
from zonekeeper.wire.running.page_identity import ProcessIdentity

#: The promise, of which the start of the interpreter and of our modules takes up to a second.
WHOLE_MS = 3_000
START_MS = 900
STORE = "zk://away:2181/ledgers"
INSTANCE = "one"

READ_ONLY: dict[str, Plain] = {
    "what": "read-only", "reason": "its disk is slow", "by": "anna", "sinceMs": 1
}  # fmt: skip
RECORD: dict[str, Plain] = {
    "observation": "down", "because": "0 of 1 there", "permission": "held",
    "reason": "zone b is down", "available": 0, "counted": 1,
}  # fmt: skip


def test_the_limits_of_a_command_add_up_to_less_than_it_promises() -> None:
    store_ms = round(settings.STORE_TIMEOUT_S * 1000)
    asked_ms = opening.LOOKED_WITHIN_MS + HttpLimits().whole_ms
    assert opening.quick() == Timeouts(request_ms=store_ms)
    assert START_MS + store_ms + UNREACHED_STOP_MS + asked_ms <= WHOLE_MS + 400
    # A process that is frozen costs the time of one page, and all pages are asked at once.
    assert START_MS + store_ms + UNREACHED_STOP_MS + HttpLimits().page_ms <= WHOLE_MS


@contextlib.contextmanager
def served(*tables: Mapping[str, Page]) -> Iterator[list[Address]]:
    """Serve pages from a thread: a command has the loop of its own."""
    ready, over = threading.Event(), threading.Event()
    found: list[Address] = []

    async def serve() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for table in tables:
                pages = {path: (lambda page=page: page) for path, page in table.items()}
                where = looking.served(pages, Address("127.0.0.1", 0))
                found.append(Address("127.0.0.1", await stack.enter_async_context(where)))
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield found
    finally:
        over.set()
        thread.join()


def pages(one: KnownProcess, unmet: dict[str, str], **more: Plain) -> dict[str, Page]:
    mine = ProcessIdentity(
        kind=one.kind,
        name=one.name,
        instance=INSTANCE,
        zone=one.zone,
        upgrade_domain=one.upgrade_domain,
    )
    metrics = 'zonekeeper_bookie_read_only{reason="x"} 1\n'
    return {
        "/state": looking.as_json({**mine.plain(), **more}),
        "/readyz": looking.readiness(unmet),
        "/metrics": Page(metrics),
    }


async def out_of_reach(
    address: str, timeouts: object = None, *, must_exist: bool = False
) -> MetadataStore:
    raise StoreUnavailableError("no server answers", store=address)


@pytest.fixture
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store that is away, and five processes of its cluster; one endpoint is another's by now."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for module in (opening, clients):
        monkeypatch.setattr(module, "open_store", out_of_reach)
    b = replace(bookie("bk-b"), zone=ZoneName("b"), upgrade_domain=UpgradeDomain("ud-1"))
    one, gone, moved = bookie("bk-0"), b, bookie("bk-1")
    held: Plain = {"b": {"predicate": "zoneHeld", "text": "zone b is down"}}
    known: dict[str, Plain] = {"": {**RECORD, "observation": "calm"}, "a": None, "b": dict(RECORD)}
    auto = pages(
        AUTO, {"metadata": "away"}, leads={"zoneWatch": True, "auditor": False}, records=known,
        heldBy=held, missing={"bk-b": "/b/ud-1"}, replicationEnabled=False, alerts={},
    )  # fmt: skip
    shown = pages(one, {}, state="read-only", restrictions=[READ_ONLY], freeBytes=7, totalBytes=9)
    other = pages(bookie("bk-9"), {})
    with served(auto, shown, other) as (at_auto, at_one, at_moved):
        processes = (
            replace(AUTO, http=at_auto),
            replace(one, http=at_one),
            replace(moved, http=at_moved),
            replace(gone, http=None),
        )
        seen = replace(sight(*processes, instance=INSTANCE), store=STORE)
        folder = last_seen.cache_folder(os.environ)
        assert last_seen.remember(folder, seen) is None
        yield folder


def call(command: click.Command, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": None}).invoke(
        command, [*words, "--metadata", STORE], catch_exceptions=False
    )


def data(command: click.Command, *words: str) -> dict[str, object]:
    said = call(command, *words, "--output", "json")
    assert said.exit_code == exits.SECOND_HAND, said.output
    found: dict[str, object] = json.loads(said.stdout)
    return found


def text(command: click.Command, *words: str) -> str:
    said = call(command, *words)
    assert said.exit_code == exits.SECOND_HAND, said.output
    first, second, *_ = said.stdout.splitlines()
    assert first == f"the metadata store is away: {STORE}: no server answers (away:2181: {GONE})"
    assert second.startswith("what follows is what processes say over HTTP, at the endpoints seen ")
    assert "zonekeeper runbook storeAway" in second
    return said.stdout


GONE = "Name or service not known"


@pytest.fixture(autouse=True)
def _no_name_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is not looked up outside of this machine."""

    async def nowhere(servers: tuple[str, ...], within_ms: int) -> str:
        assert servers == ("away:2181",)
        return f"away:2181: {GONE}"

    monkeypatch.setattr(reachable, "each_server", nowhere)


@pytest.mark.usefixtures("remembered")
def test_s154_zones_are_as_the_zone_watch_knew_them_and_as_bookies_answer() -> None:
    found = data(zones, "status")
    assert found["saidBy"] == "auto-0"
    rows = found["zones"]
    assert isinstance(rows, dict)
    nothing = dict.fromkeys(RECORD)
    count = {"bookiesRemembered": 2, "bookiesAnswering": 1, "bookiesReady": 1}
    assert rows["a"] == {**nothing, "heldBy": None, **count}
    count = {"bookiesRemembered": 1, "bookiesAnswering": 0, "bookiesReady": 0}
    assert rows["b"] == {**RECORD, "heldBy": "zoneHeld", **count}
    away = found["storeAway"]
    assert isinstance(away, dict)
    assert away["endpointsSeen"] == "2023-11-14T22:13:20+00:00"
    said = text(zones, "status")
    assert "auto-0 knows them (metadata: away)" in said
    assert "bookie bk-9 answers there now" in said
    assert call(zones, "status", "x").exit_code == exits.REFUSED


@pytest.mark.usefixtures("remembered")
def test_s154_bookies_say_how_they_are_and_a_stranger_is_nobody() -> None:
    said = call(bookies, "list", "--output", "json")
    assert said.exit_code == exits.SECOND_HAND
    one, moved, gone = json.loads(said.stdout)
    assert (one["bookie"], one["state"], one["freeBytes"]) == ("bk-0", "read-only", 7)
    assert (one["zone"], one["upgradeDomain"], one["answers"]) == ("a", "ud-0", True)
    assert one["restrictions"] == [READ_ONLY]
    assert one["storeAway"]["why"].endswith(f"({'away:2181: ' + GONE})")
    assert (moved["bookie"], moved["state"], moved["ready"]) == ("bk-1", None, None)
    assert moved["otherProcess"]
    assert moved["said"] == ["bookie bk-9 answers there now"]
    assert (gone["answers"], gone["otherProcess"], gone["zone"]) == (False, False, "b")
    assert gone["said"] == ["it serves no HTTP"]
    assert "read-only (by anna: its disk is slow)" in text(bookies, "list")

    shown = data(bookies, "show", "bk-0")
    assert isinstance(shown["says"], dict)
    assert "its disk is slow" in text(bookies, "show", "bk-0")
    assert data(bookies, "show", "bk-1")["says"] is None
    assert call(bookies, "show", "bk-9").exit_code == exits.REFUSED


@pytest.mark.usefixtures("remembered")
def test_s154_what_is_held_is_known_from_the_zone_watch() -> None:
    found = data(plan)
    held = {"what": "zone b", "predicate": "zoneHeld", "text": "zone b is down"}
    assert found["held"] == [{**held, "runbook": "zoneHeld"}]
    assert (found["missing"], found["saidBy"]) == (["bk-b"], "auto-0")
    assert "zoneHeld" in text(plan)

    found = data(autorecovery, "status")
    assert found["switch"] == "off"
    processes = found["processes"]
    assert isinstance(processes, list)
    assert [(one["name"], one["leads"], one["ready"]) for one in processes] == [
        ("auto-0", ["zoneWatch"], False)
    ]
    assert "zoneWatch" in text(autorecovery, "status")


@pytest.mark.usefixtures("remembered")
def test_s154_endpoints_are_listed_with_their_age_and_can_be_forgotten() -> None:
    found = data(endpoints)
    listed = found["endpoints"]
    assert isinstance(listed, list)
    assert [(one["name"], one["says"]["answers"]) for one in listed] == [
        ("auto-0", True), ("bk-0", True), ("bk-1", False), ("bk-b", False)
    ]  # fmt: skip
    assert found["seen"] == "2023-11-14T22:13:20+00:00"
    assert "another process: bookie bk-9 answers there now" in text(endpoints)

    said = call(endpoints, "--forget")
    assert (said.exit_code, said.stdout) == (0, "forgotten\n")
    assert call(endpoints, "--forget").stdout == "nothing was remembered\n"
    said = call(endpoints)
    assert said.exit_code == exits.NOT
    assert "no command of this user has seen this cluster" in said.stderr


def test_s155_a_command_that_can_show_nothing_ends_with_one_line(remembered: Path) -> None:
    said = call(timeline)
    assert (said.exit_code, said.stdout) == (exits.NOT, "")
    (line,) = said.stderr.splitlines()
    assert line.startswith(f"Error: the metadata store is away: {STORE}: no server answers (")
    assert "Nothing was changed; give the command again when the store is back" in line
    assert "`zonekeeper endpoints` lists" in line

    said = call(autorecovery, "hold", "--zone", "a", "--reason", "x")
    assert said.exit_code == exits.NOT
    assert "Nothing was changed" in said.stderr

    (file,) = remembered.iterdir()
    file.write_bytes(b"{")
    said = call(zones, "status")
    assert said.exit_code == exits.NOT
    assert str(file) in said.stderr
    assert "cannot be used" in said.stderr
    assert "`zonekeeper endpoints`" not in said.stderr, "it would list nothing"


@pytest.mark.usefixtures("remembered")
def test_s153_what_is_remembered_of_another_cluster_is_refused() -> None:
    said = call(zones, "status", "--cluster-id", "two")
    assert said.exit_code == exits.REFUSED
    assert "of another cluster: one, and not two" in said.stderr


@pytest.mark.parametrize("given", ["nan", "0", "-1", "x"])
def test_a_wait_that_is_none_is_refused(given: str) -> None:
    assert call(timeline, "--store-timeout", given).exit_code == exits.REFUSED


def test_the_wait_for_the_store_is_the_one_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Timeouts] = []

    async def note(address: str, timeouts: Timeouts, *, must_exist: bool) -> MetadataStore:
        asked.append(timeouts)
        return await out_of_reach(address)

    monkeypatch.setattr(opening, "open_store", note)
    call(timeline, "--store-timeout", "7.5")
    monkeypatch.setenv(settings.STORE_TIMEOUT.environment, "8")
    call(timeline)
    monkeypatch.delenv(settings.STORE_TIMEOUT.environment)
    call(timeline)
    assert [one.request_ms for one in asked] == [7_500, 8_000, 1_200]


@virtual_time.played
async def test_s156_a_look_ends_when_the_store_answers_no_more() -> None:
    async with opened() as store:
        began = asyncio.get_running_loop().time()

        async def look() -> None:
            async with opening.attended(store):
                await asyncio.sleep(10)
                store.cut()
                await asyncio.sleep(3_600)

        with pytest.raises(StoreUnavailableError):
            await look()
        assert asyncio.get_running_loop().time() - began <= 10 + 0.5 + 1.2


@virtual_time.played
async def test_s156_a_look_goes_on_while_the_store_answers() -> None:
    async with opened() as store, opening.attended(store):
        await asyncio.sleep(3_600)


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize(
    "lost",
    [
        StoreUnavailableError("no answer within 1200 ms", store=STORE),
        SessionLostError("the session expired", store=STORE),
    ],
)
def test_s156_a_store_that_is_lost_in_the_middle_is_said_so(
    lost: StoreError,
) -> None:
    async def work() -> None:
        raise lost

    async def through_a_client() -> None:
        raise MetadataFailed("reading", retryable=True, maybe_applied=False) from lost

    place = Place(address=STORE, cluster_id=None, as_json=False)
    told: list[str] = []
    for one in (work, through_a_client):
        with pytest.raises(SystemExit) as ended:
            second_hand.run(place, one(), lambda away: told.append(away.why))
        assert ended.value.code == exits.SECOND_HAND
    assert told == [f"it was there, and stopped answering: {lost}"] * 2


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[MemoryStore]:
    store = MemoryStore(MemoryServer(), timeouts=Timeouts(request_ms=1_200))
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.usefixtures("remembered")
def test_s154_top_measures_the_bookies_that_answer() -> None:
    found = data(top, "--once", "--every", "0.1")
    rows = found["bookies"]
    assert isinstance(rows, list)
    assert {row["bookie"] for row in rows} == {"bk-0", "bk-1", "bk-b"}
    assert "bookie bk-9 answers there now" in text(top, "--once", "--every", "0.1")
