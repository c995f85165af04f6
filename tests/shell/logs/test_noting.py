"""Commands note which logs and cursors they saw, and completion gives those names."""

import asyncio
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.shell.log_world import done, refused
from tests.support.bookie_processes import make_cluster
from tests.support.ready_processes import SHELL
from zonekeeper.log import LogRules, connect
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.shell.commands.endpoints import endpoints
from zonekeeper.shell.logs import noting
from zonekeeper.shell.reaching import last_seen, seen_logs
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reaching.seen_logs import SeenLogs

NAMES = ("orders/eu-1", "orders/us-1", "audit")


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have a cluster without bookies: names need none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    uri = f"sqlite://{tmp_path / 'meta.db'}"
    zones = tuple(map(ZoneName, "abc"))
    asyncio.run(make_cluster(uri, Policy(placement=PlacementRules(zones=zones))))
    return uri


@pytest.fixture
def logs(address: str) -> str:
    """Have logs that no command has seen."""

    async def make() -> None:
        async with connect(address) as log:
            for name in NAMES:
                await log.create(name, LogRules())

    asyncio.run(make())
    return address


def known(address: str) -> SeenLogs:
    store = last_seen.store_name(address)
    seen = seen_logs.recall(seen_logs.cache_folder(os.environ), store)
    return SeenLogs(store=store, instance="") if seen is None else seen


def test_a_log_is_noted_that_a_command_made_or_used(logs: str) -> None:
    done(logs, "create", "new/one")
    assert known(logs).names == ["new/one"]
    done(logs, "show", "audit")
    done(logs, "set", "orders/eu-1", "--rotate-messages", "5")
    assert known(logs).names == ["orders/eu-1", "audit", "new/one"]
    assert "there is no log" in refused(logs, "show", "typo")
    assert "cannot be a log's name" in refused(logs, "show", "a//b")
    assert "there is a log audit" in refused(logs, "create", "audit")
    assert known(logs).names == ["orders/eu-1", "audit", "new/one"]


def test_a_log_that_is_not_there_any_more_is_forgotten(logs: str) -> None:
    for name in NAMES:
        done(logs, "show", name)
    done(logs, "delete", "audit", "--dry-run")
    assert "audit" in known(logs).names
    done(logs, "delete", "audit", "--yes")
    assert sorted(known(logs).names) == ["orders/eu-1", "orders/us-1"]

    async def delete() -> None:
        async with connect(logs) as log:
            await log.delete("orders/eu-1")

    asyncio.run(delete())
    refused(logs, "show", "orders/eu-1")
    assert known(logs).names == ["orders/us-1"]


def test_a_listing_is_noted_and_tells_what_is_gone(logs: str) -> None:
    done(logs, "list")
    assert sorted(known(logs).names) == sorted(NAMES)

    async def delete() -> None:
        async with connect(logs) as log:
            await log.delete("orders/eu-1")
            await log.delete("audit")

    asyncio.run(delete())
    done(logs, "list", "orders")
    assert sorted(known(logs).names) == ["audit", "orders/us-1"], "only of what was listed"
    done(logs, "list", "-o", "json")
    assert known(logs).names == ["orders/us-1"]


def test_a_listing_that_is_cut_short_forgets_nothing(logs: str) -> None:
    done(logs, "list")
    command = f"{shlex.join(SHELL)} log list --metadata {logs} > /dev/full"
    cut = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert cut.returncode == 1, cut.stderr
    assert sorted(known(logs).names) == sorted(NAMES)


def test_a_listing_holds_no_more_names_than_are_noted(
    logs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_logs, "LOGS_MAX", 2)
    done(logs, "list")
    assert len(known(logs).names) == 2
    before = known(logs)
    done(logs, "list")
    assert known(logs) == before

    async def names_held() -> int:
        async with connect(logs) as log:
            place = Place(address=logs, cluster_id=None, as_json=False)
            listing = noting.NotedListing(place, log, None)
            for name in NAMES:
                listing.see(name)
            return len(listing._names)

    assert asyncio.run(names_held()) == 2


def test_cursors_are_noted_and_forgotten(logs: str) -> None:
    done(logs, "read", "audit", "--cursor", "billing", "--move")
    done(logs, "read", "audit", "--cursor", "stock", "--move")
    done(logs, "list")
    assert known(logs).cursors("audit") == ("billing", "stock"), "a listing leaves what it shows"
    done(logs, "cursor", "delete", "audit", "stock", "--yes")
    assert known(logs).cursors("audit") == ("billing",)

    async def make() -> None:
        async with connect(logs) as log:
            await log.cursor("audit", "other")
            await log.delete_cursor("audit", "billing")

    asyncio.run(make())
    done(logs, "cursors", "audit")
    assert known(logs).cursors("audit") == ("other",)
    asyncio.run(make_cursor(logs, "third"))
    done(logs, "show", "audit")
    assert known(logs).cursors("audit") == ("other", "third")


async def make_cursor(address: str, name: str) -> None:
    async with connect(address) as log:
        await log.cursor("audit", name)


def test_what_is_remembered_is_forgotten_on_request(logs: str) -> None:
    done(logs, "show", "audit")
    runner = CliRunner()
    words = ["--forget", "--metadata", logs]
    assert runner.invoke(endpoints, words).stdout == "forgotten\n"
    assert known(logs).names == []
    assert runner.invoke(endpoints, words).stdout == "nothing was remembered\n"


def test_a_cache_that_cannot_be_written_fails_no_command(
    logs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    done(logs, "show", "audit")
    done(logs, "list")
    done(logs, "delete", "audit", "--yes")


def test_a_store_in_memory_is_not_remembered() -> None:
    place = Place(address="memory://", cluster_id=None, as_json=False)
    assert noting._store(place) is None
