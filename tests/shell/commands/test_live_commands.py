"""Every command against a real cluster of processes: done right, and refused with nothing changed.

One cluster serves all of these, and each leaves it as it was. What kills something has a cluster of
its own, in ``test_live_processes``.
"""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from tests.shell.live_cluster import WHO, LiveCluster, is_calm, live_cluster, opened, registration
from zonekeeper.client.api import blocking
from zonekeeper.metadata.bookies import registration as bookie_registration
from zonekeeper.metadata.commands.cluster import cluster as cluster_command
from zonekeeper.metadata.formats.service_info import Endpoint
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Registration
from zonekeeper.shell.commands.audit import audit
from zonekeeper.shell.commands.autorecovery import autorecovery
from zonekeeper.shell.commands.bookies import bookies
from zonekeeper.shell.commands.ledger import ledger
from zonekeeper.shell.commands.maintenance import maintenance
from zonekeeper.shell.commands.plan import plan
from zonekeeper.shell.commands.policy import policy
from zonekeeper.shell.commands.timeline import timeline
from zonekeeper.shell.commands.top import top
from zonekeeper.shell.commands.zones import zones

pytestmark = pytest.mark.processes

B = ZoneName("b")
BOOKIES = [f"bk-{zone}-{number}" for zone in "abc" for number in range(2)]
LINES = b"".join(b"line %d\n" % number for number in range(300))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("live") / "cluster", "--bookies-per-zone", "2") as up:
        yield up


def appended(cluster: LiveCluster) -> str:
    return str(cluster.data(ledger, "append", given=LINES)["ledger"])


def happened(cluster: LiveCluster, about: str) -> list[tuple[object, object]]:
    """Give what is told of something, the newest first: what, and by whom."""
    result = cluster.text(timeline, "--about", about, "--output", "json")
    return [(one["kind"], one["by"]) for one in json.loads(result)]


# ── looking ──


def test_a_calm_cluster_says_so_in_every_command(cluster: LiveCluster) -> None:
    info = cluster.data(cluster_command, "info")
    assert info["bookies"] == {"cookies": 6, "writable": 6, "readOnly": 0}
    made = cluster.data(cluster_command, "init")
    assert (made["made"], made["instance"]) == (False, info["instance"])

    seen = cluster.data(zones, "status", "--cluster-id", str(info["instance"]))
    found = seen["zones"]
    assert isinstance(found, dict)
    assert {zone: row["observation"] for zone, row in found.items()} == dict.fromkeys("abc", "up")
    assert seen["zoneWatch"] in ("auto-0", "auto-1")

    status = cluster.data(autorecovery, "status")
    assert (status["processes"], status["zonesHeld"], status["bookiesMissing"]) == (2, [], [])
    assert cluster.data(plan) == {"held": [], "missing": [], "notNamed": {}}
    assert cluster.data(maintenance, "list") == {"maintenance": []}
    assert ("changed", f"zone watch {seen['zoneWatch']}") in happened(cluster, "zone b")


def test_every_bookie_is_listed_and_says_how_it_is(cluster: LiveCluster) -> None:
    listed = json.loads(cluster.text(bookies, "list", "--output", "json"))
    assert [row["bookie"] for row in listed] == BOOKIES
    assert {row["state"] for row in listed} == {"writable"}

    shown = cluster.data(bookies, "show", "bk-c-1")
    assert (shown["zone"], shown["upgradeDomain"], shown["doesNotAnswer"]) == ("c", "ud-1", None)
    said = shown["says"]
    assert isinstance(said, dict)
    assert said["state"] == "writable"
    assert 0 < said["freeBytes"] <= said["totalBytes"]

    seen = cluster.data(top, "--once", "--every", "0.2", "--zone", "c")["bookies"]
    assert isinstance(seen, list)
    assert [(row["bookie"], row["seen"]) for row in seen] == [("bk-c-0", True), ("bk-c-1", True)]


def test_every_table_is_readable_in_eighty_columns(cluster: LiveCluster) -> None:
    appended(cluster)
    words: list[tuple[click.Command, tuple[str, ...]]] = [
        (zones, ("status",)),
        (autorecovery, ("status",)),
        (bookies, ("list",)),
        (timeline, ("--limit", "5")),
        (plan, ("--no-wait",)),
        (audit, ("placement",)),
        (audit, ("lose", "--zone", "a")),
        (top, ("--once", "--every", "0.2")),
        (autorecovery, ("enable", *WHO, "--dry-run")),
    ]
    for command, rest in words:
        text = cluster.call(command, *rest, columns="80").stdout
        assert max(map(len, text.splitlines())) <= 80
        assert "…" not in text, text


# ── ledgers, and audits of them ──


def test_a_ledger_lives_and_is_audited_from_beginning_to_end(cluster: LiveCluster) -> None:
    number = appended(cluster)
    assert cluster.text(ledger, "read", number).encode() == LINES
    assert cluster.text(ledger, "tail", number, "--first", "299") == "line 299\n"
    assert number in cluster.text(ledger, "list").split()
    shown = cluster.data(ledger, "show", number)
    assert (shown["state"], shown["lastEntry"]) == ("CLOSED", 299)
    assert "CLOSED at entry 299" in cluster.text(ledger, "recover", number, "--yes")

    counts = cluster.data(audit, "placement")["counts"]
    assert isinstance(counts, dict)
    assert counts["STRICT"] >= 1
    copies = cluster.data(audit, "replicas", "--ledger", number)
    assert copies["counts"] == {"nothing found": 1}
    assert (copies["entries"], copies["copiesUnknown"]) == (300, 0)
    lost = cluster.data(audit, "lose", "--zone", "a")["counts"]
    assert isinstance(lost, dict)
    assert (lost["unreadable"], lost["safe"]) == (0, counts["STRICT"])
    worse = json.loads(
        cluster.call(audit, "lose", "--zone", "a", "--and-one", "--output", "json").stdout
    )
    assert worse["counts"]["safe"] == 0
    opened = cluster.data(audit, "open")
    assert opened["counts"] == {
        "open, and their writer's process has no session": 0,
        "open, and name no writer": 0,
        "open, and their writer's process is there": 0,
        "closed": counts["STRICT"],
    }

    assert cluster.data(ledger, "delete", number, "--yes")["deleted"] == [int(number)]
    assert cluster.call(ledger, "read", number).exit_code == 2


def test_an_open_ledger_is_told_by_the_presence_of_its_writer(cluster: LiveCluster) -> None:
    def counted() -> tuple[int, int]:
        found = cluster.call(audit, "open", "--output", "json")
        counts = json.loads(found.stdout)["counts"]
        gone = counts["open, and their writer's process has no session"]
        assert found.exit_code == (1 if gone else 0)
        return gone, counts["open, and their writer's process is there"]

    with blocking.connect(cluster.address) as client:
        written = client.create()
        written.append_and_wait(b"an entry")
        assert counted() == (0, 1)
    assert counted() == (1, 0)
    assert str(written.ledger_id) in cluster.call(audit, "open").stdout
    cluster.text(ledger, "recover", str(written.ledger_id), "--yes")
    assert counted() == (0, 0)
    cluster.text(ledger, "delete", str(written.ledger_id), "--yes")


# ── orders, each taken back ──


def test_the_policy_is_changed_and_changed_back(cluster: LiveCluster, tmp_path: Path) -> None:
    standing = cluster.text(policy, "show")
    before, file = tmp_path / "before.yaml", tmp_path / "wanted.yaml"
    before.write_text(standing)
    rules = yaml.safe_load(standing)
    rules["repair"]["bytesPerSecond"] = "7MiB"
    file.write_text(yaml.safe_dump(rules))
    said = "repair.bytesPerSecond: 50MiB -> 7MiB\n"

    assert cluster.call(policy, "diff", str(file)).stdout == said
    assert cluster.text(policy, "set", str(file), *WHO, "--dry-run") == said
    assert cluster.call(policy, "diff", str(before)).exit_code == 0
    cluster.text(policy, "set", str(file), *WHO, "--yes")
    cluster.until(lambda view: view.policy.repair.bytes_per_second == 7 << 20)
    cluster.text(policy, "set", str(before), *WHO, "--yes")
    assert cluster.call(policy, "diff", str(before)).exit_code == 0
    assert happened(cluster, "version")[:2] == [("policy", "anna")] * 2


def test_planned_work_is_seen_by_the_zone_watch_and_ends(cluster: LiveCluster) -> None:
    where = ("--zone", "b", "--upgrade-domain", "ud-1")
    cluster.text(maintenance, "start", *where, "--for", "10m", *WHO)
    cluster.until(lambda view: view.zones[B].evidence.in_maintenance == 1)
    waiting = cluster.data(plan)["held"]
    assert isinstance(waiting, list)
    assert [(one["what"], one["predicate"]) for one in waiting] == [("/b/ud-1", "inMaintenance")]
    assert "/b/ud-1" in cluster.text(maintenance, "list")
    assert cluster.text(maintenance, "end", *where, *WHO) == "ended: /b/ud-1\n"
    cluster.until(lambda view: view.zones[B].evidence.in_maintenance == 0)
    assert cluster.data(maintenance, "list") == {"maintenance": []}


def test_a_zone_is_held_until_it_is_released(cluster: LiveCluster) -> None:
    cluster.text(autorecovery, "hold", "--zone", "b", *WHO)
    waiting = cluster.data(plan)["held"]
    assert isinstance(waiting, list)
    assert [(one["what"], one["predicate"]) for one in waiting] == [("zone b", "zoneHeld")]
    looked = cluster.data(autorecovery, "release", "--zone", "b", *WHO, "--dry-run")
    assert (looked["done"], looked["bytes"], looked["processes"]) == (False, 0, 2)
    assert cluster.data(autorecovery, "status")["zonesHeld"] == ["b"]
    cluster.text(autorecovery, "release", "--zone", "b", *WHO, "--yes")
    cluster.until(is_calm)


def test_the_whole_cluster_is_held_until_it_is_released(cluster: LiveCluster) -> None:
    cluster.text(autorecovery, "hold", "--cluster", *WHO)
    assert cluster.data(autorecovery, "status")["clusterHeld"] is True
    cluster.text(autorecovery, "release", "--cluster", *WHO, "--yes")
    cluster.until(is_calm)


def test_apache_s_shell_and_ours_throw_one_switch(cluster: LiveCluster) -> None:
    """Apache's ``autorecovery -disable`` makes this node, empty; ``-enable`` deletes it."""

    async def node() -> bytes | None:
        async with opened(cluster.address) as found:
            held = await found.store.get("/ledgers/underreplication/disable", sync=True)
            return None if held is None else held.value

    async def as_apache_disables() -> None:
        async with opened(cluster.address) as found:
            await found.store.create("/ledgers/underreplication/disable", b"")

    async def as_apache_enables() -> None:
        async with opened(cluster.address) as found:
            await found.store.delete("/ledgers/underreplication/disable", version=0)

    cluster.text(autorecovery, "disable", *WHO, "--yes")
    assert asyncio.run(node()) == b""
    asyncio.run(as_apache_enables())
    assert cluster.data(autorecovery, "status")["switch"] == "on"

    asyncio.run(as_apache_disables())
    assert cluster.data(autorecovery, "status")["switch"] == "off"
    waiting = cluster.data(plan, "--no-wait")["held"]
    assert isinstance(waiting, list)
    assert {one["predicate"] for one in waiting} == {"replicationDisabled"}
    cluster.text(autorecovery, "enable", *WHO, "--yes")
    assert asyncio.run(node()) is None
    cluster.until(is_calm)


def test_a_bookie_refuses_writes_until_it_is_told_to_take_them_again(cluster: LiveCluster) -> None:
    assert cluster.data(bookies, "readonly", "bk-c-0", "--dry-run") == {
        "bookie": "bk-c-0",
        "readOnly": True,
        "done": False,
    }
    cluster.text(bookies, "readonly", "bk-c-0", "--yes", *WHO)
    cluster.until(registration("bk-c-0", Registration.READ_ONLY))
    s151_everybody_says_who_ordered_it(cluster)
    cluster.text(bookies, "readonly", "bk-c-0", "--off", "--yes", *WHO)
    cluster.until(registration("bk-c-0", Registration.WRITABLE))
    assert cluster.data(bookies, "show", "bk-c-0")["restrictions"] == []
    told = [kind for kind, by in happened(cluster, "bk-c-0") if by == "anna"]
    assert told == ["writable", "read-only"]


def s151_everybody_says_who_ordered_it(cluster: LiveCluster) -> None:
    line = "read-only (by anna: a test), since 20"
    restrictions = cluster.data(bookies, "show", "bk-c-0")["restrictions"]
    assert isinstance(restrictions, list)
    (of_anna,) = restrictions
    assert (of_anna["by"], of_anna["reason"]) == ("anna", "a test")
    assert line in cluster.text(bookies, "list")
    rows = cluster.data(top, "--once", "--every", "0.2", "--zone", "c")["bookies"]
    assert isinstance(rows, list)
    assert [row["restrictions"] for row in rows] == [restrictions, []]
    assert line in cluster.text(top, "--once", "--every", "0.2", "--zone", "c")
    assert line in cluster.text(audit, "placement")
    page = asyncio.run(page_of(cluster, "bk-c-0"))
    with urllib.request.urlopen(f"http://{page.host}:{page.port}/state") as answer:
        state = json.load(answer)
    assert state["restrictions"] == restrictions


async def page_of(cluster: LiveCluster, bookie: str) -> Endpoint:
    async with opened(cluster.address) as opened_cluster:
        info = await bookie_registration.read_service_info(opened_cluster, BookieId(bookie))
    assert info is not None
    assert info.http is not None
    return info.http


# ── what makes no sense ──

WRONG: list[tuple[click.Command, tuple[str, ...], str]] = [
    (zones, ("status", "d"), "there is no zone d; there are a, b, c"),
    (audit, ("lose", "--zone", "d"), "there is no zone d"),
    (audit, ("replicas", "--ledger", "99"), "there is no ledger 99"),
    (audit, ("replicas", "--ledger", str(1 << 63)), "is not in the range"),
    (audit, ("replicas", "--bytes-per-second", "fast"), "a number and KiB, MiB or GiB"),
    (autorecovery, ("hold", "--zone", "d", *WHO), "there is no zone d"),
    (autorecovery, ("release", "--zone", "d", *WHO, "--yes"), "there is no zone d"),
    (autorecovery, ("release", "--zone", "a", *WHO, "--yes"), "nothing of zone a is held"),
    (autorecovery, ("release", *WHO, "--yes"), "either --zone ZONE or --cluster"),
    (autorecovery, ("disable", *WHO), "repeat with --yes"),
    (autorecovery, ("disable", "--by", "anna", "--yes"), "Missing option '--reason'"),
    (bookies, ("show", "nobody"), "there is no bookie nobody; there are bk-a-0"),
    (bookies, ("readonly", "nobody", "--yes", *WHO), "there is no bookie nobody"),
    (bookies, ("readonly", "bk-a-0", *WHO), "repeat with --yes"),
    (bookies, ("recover", "bk-a-0", *WHO, "--yes"), "bk-a-0 is registered, so it is not lost"),
    (bookies, ("recover", "nobody", *WHO, "--yes"), "there is no bookie nobody"),
    (bookies, ("decommission", "nobody", *WHO, "--yes"), "there is no bookie nobody"),
    (bookies, ("decommission", "bk-a-0", *WHO), "repeat with --yes"),
    (bookies, ("drain", "nobody", *WHO, "--yes"), "there is no bookie nobody"),
    (bookies, ("drain", "bk-a-0", *WHO), "repeat with --yes"),
    (bookies, ("take-back", "bk-a-0", *WHO), "there is no order about bk-a-0"),
    (ledger, ("read", "99"), "there is no ledger 99"),
    (ledger, ("show", str(1 << 63)), "is not in the range"),
    (ledger, ("create", "--quorums", "7/3/2"), "quorums.ensemble: 7"),
    (maintenance, ("start", "--zone", "d", "--for", "1h", *WHO), "no bookie stands in zone d"),
    (maintenance, ("start", "--zone", "a", "--for", "long", *WHO), "'long': write a whole number"),
    (maintenance, ("start", "--zone", "a", "--for", "1d", *WHO), "may last up to 2h"),
    (maintenance, ("end", "--zone", "a", *WHO), "no such maintenance is declared"),
    (policy, ("set", "nowhere.yaml", *WHO, "--yes"), "nowhere.yaml"),
    (policy, ("diff", "nowhere.yaml"), "nowhere.yaml"),
    (timeline, ("--limit", "0"), "is not in the range"),
    (top, ("--once", "--zone", "d"), "there is no zone d; there are a, b, c"),
    (top, ("--output", "json"), "add --once"),
]


def test_what_makes_no_sense_is_refused_and_changes_nothing(cluster: LiveCluster) -> None:
    before = cluster.standing()
    for command, words, reason in WRONG:
        result = cluster.call(command, *words)
        assert (result.exit_code, result.stdout) == (2, ""), (words, result.output)
        assert reason in result.stderr, (words, result.stderr)
    assert cluster.standing() == before


#: What each command is called with where only the cluster is wrong.
EACH: list[tuple[click.Command, tuple[str, ...]]] = [
    (zones, ("status",)),
    (maintenance, ("start", "--zone", "a", "--for", "1m", *WHO)),
    (maintenance, ("end", "--zone", "a", *WHO)),
    (maintenance, ("list",)),
    (autorecovery, ("status",)),
    (autorecovery, ("enable", *WHO, "--yes")),
    (autorecovery, ("disable", *WHO, "--yes")),
    (autorecovery, ("hold", "--zone", "a", *WHO)),
    (autorecovery, ("release", "--zone", "a", *WHO, "--yes")),
    (bookies, ("list",)),
    (bookies, ("show", "bk-a-0")),
    (bookies, ("readonly", "bk-a-0", "--yes", *WHO)),
    (bookies, ("decommission", "bk-a-0", *WHO, "--yes")),
    (bookies, ("recover", "bk-a-0", *WHO, "--yes")),
    (bookies, ("drain", "bk-a-0", *WHO, "--yes")),
    (bookies, ("take-back", "bk-a-0", *WHO)),
    (audit, ("placement",)),
    (audit, ("replicas",)),
    (audit, ("lose", "--zone", "a")),
    (policy, ("show",)),
    (timeline, ()),
    (plan, ()),
    (ledger, ("create",)),
    (ledger, ("append",)),
    (ledger, ("read", "0")),
    (ledger, ("tail", "0")),
    (ledger, ("recover", "0", "--yes")),
    (ledger, ("delete", "0", "--yes")),
    (ledger, ("list",)),
    (ledger, ("show", "0")),
    (top, ("--once",)),
]


def test_another_cluster_than_the_one_that_is_meant_is_left_alone(cluster: LiveCluster) -> None:
    before = cluster.standing()
    for command, words in EACH:
        result = cluster.call(command, *words, "--cluster-id", "another")
        assert (result.exit_code, result.stdout) == (2, ""), (words, result.output)
        assert "this is another cluster" in result.stderr, (words, result.stderr)
    assert cluster.standing() == before
