"""The process for real: started, stopped, killed, and refused what is wrong, with its own words."""

import asyncio
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.bookie.life.process_world import (
    BOOKIE,
    INSTANCE,
    LIMIT_S,
    World,
    append_all,
    launch,
    linked,
    refused,
    started,
)
from tests.bookie.running import KEY, LEDGER, frame, opening
from tests.bookie.serving.test_links import Sink, reading
from tests.support import zookeeper
from tests.support.certificates import Authority
from tests.support.exposed import unexplained
from tests.support.http_port import ask, get
from zonekeeper.bookie.life import identity
from zonekeeper.bookie.serving.modes import BY_PERSON
from zonekeeper.metadata.bookies import bookie_watch, cookie_store, registration
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, timeline
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.candidates import EnsembleRequest
from zonekeeper.placement.policy.rules import PlacementRules, Policy, RepairRules, ZoneWatchRules
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles

pytestmark = pytest.mark.processes

#: At 20 a second: five minutes.
LOOKS_MAX = 6_000

#: Whose sessions outlast any test.
LASTING = Policy(
    placement=PlacementRules(zones=(ZoneName("a"), ZoneName("b"), ZoneName("c"))),
    zone_watch=ZoneWatchRules(session_timeout_ms=600_000),
    repair=RepairRules(bookie_recovery_delay_ms=1_200_000),
)


async def test_what_was_acknowledged_and_fenced_survives_kill_9(world: World) -> None:
    async with started(world) as bookie, linked(bookie) as link:
        await append_all(link, range(200))
        await link.fence(LEDGER, KEY)
        assert await bookie.end(signal.SIGKILL) == -signal.SIGKILL
    async with started(world) as again, linked(again) as link:
        assert again.boot == bookie.boot + 1
        ranges = await link.list_entries(
            service.ListEntriesRequest(
                ledger_id=LEDGER, first_entry_id=opening().first_entry_id, ranges_max=9
            )
        )
        assert ranges.ranges == ((0, 199),)
        sink = Sink()
        lane = await link.open_fragment(opening(), sink)
        lane.append(frame(200))
        assert isinstance((await sink.outcomes.get())[1], errors.Fenced)
        reply = await link.read(reading(0, 500))
        assert sum(map(len, reply.frames)) == 200


async def test_a_journal_and_ledger_directories_of_their_own_are_used_and_guarded(
    world: World,
) -> None:
    journal, ledgers = world.folder / "journal", [world.folder / f"ledgers-{n}" for n in "12"]
    spread = {"journal": str(journal), "ledger_dirs": ",".join(map(str, ledgers))}
    async with started(world, **spread) as bookie, linked(bookie) as link:
        await append_all(link, range(50))
        assert await bookie.end(signal.SIGKILL) == -signal.SIGKILL
    assert list(journal.glob("arrival-*"))
    assert not list(world.data.glob("arrival-*"))
    async with started(world, **spread) as again, linked(again) as link:
        assert sum(map(len, (await link.read(reading(0, 500))).frames)) == 50
        code, said = await refused(world.arguments(**{**spread, "data": str(world.folder / "d2")}))
        assert (code, f"{journal} is in use by another process" in said) == (2, True)
    shutil.rmtree(ledgers[1])
    code, said = await refused(world.arguments(**spread))
    assert (code, f"replace-disk --folder {ledgers[1]}`" in said) == (2, True)


async def test_it_opens_as_many_files_as_the_machine_allows(world: World) -> None:
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (ours[1] // 2, ours[1]))
    try:
        async with started(world) as bookie:
            soft, hard = resource.prlimit(bookie.process.pid, resource.RLIMIT_NOFILE)
            assert soft == hard == ours[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, ours)


async def test_sigterm_takes_the_registration_back_and_ends_with_0(world: World) -> None:
    async with started(world) as bookie, linked(bookie) as link, world.cluster() as cluster:
        info = await registration.read_service_info(cluster, BOOKIE)
        assert info is not None
        assert info.bookie is not None
        assert f"{info.bookie.host}:{info.bookie.port}" == bookie.grpc
        await append_all(link, range(10))

        assert await bookie.end(signal.SIGTERM) == 0

        assert await registration.read_service_info(cluster, BOOKIE) is None
    async with started(world) as again:
        assert await again.end(signal.SIGINT) == 0


async def test_it_is_ready_when_it_says_so_and_its_cookie_came_before_its_registration(
    world: World,
) -> None:
    async with started(world) as bookie, world.cluster() as cluster:
        assert await ask(bookie.http_port, get("/healthz")) == (200, "alive\n")
        assert await ask(bookie.http_port, get("/readyz")) == (200, "ready\n")
        cookie = await cookie_store.read(cluster, BOOKIE)
        assert cookie is not None
        assert cookie.cookie.location == locations.parse("/a/ud-1")
        cookie_node = await cluster.store.get(cluster.root.cookie(BOOKIE))
        registered_node = await cluster.store.get(cluster.root.writable(BOOKIE))
        assert cookie_node is not None
        assert registered_node is not None
        assert cookie_node.modified_id < registered_node.created_id


async def test_it_shows_what_it_does_and_what_it_is(world: World) -> None:
    async with started(world) as bookie, linked(bookie) as link, world.cluster() as cluster:
        await append_all(link, range(20))
        await link.read(reading(0, 500))

        status, metrics = await ask(bookie.http_port, get("/metrics"))
        shown = json.loads((await ask(bookie.http_port, get("/state")))[1])

        assert status == 200
        assert unexplained(metrics) == []
        assert re.search(r"^process_resident_memory_bytes \d{7}", metrics, re.M)
        assert "zonekeeper_bookie_appended_entries_total 20\n" in metrics
        assert "zonekeeper_bookie_read_entries_total 20\n" in metrics
        assert 'zonekeeper_bookie_operation_seconds_count{operation="append"} 20\n' in metrics
        assert "zonekeeper_bookie_rewrite_segments_in_reach " in metrics
        assert f"zonekeeper_bookie_boot_epoch {bookie.boot}\n" in metrics
        assert "zonekeeper_bookie_storage_rewritten_segments_total 0\n" in metrics
        assert "zonekeeper_bookie_gc_forgotten_total 0\n" in metrics
        assert "zonekeeper_bookie_read_only{" not in metrics
        assert (shown["state"], shown["ledgers"], shown["location"]) == ("writable", 1, "/a/ud-1")
        assert (shown["kind"], shown["zone"], shown["upgradeDomain"]) == ("bookie", "a", "ud-1")
        assert shown["instance"], "a page names its cluster"
        info = await registration.read_service_info(cluster, BOOKIE)
        assert info is not None
        assert info.http is not None
        assert info.http.port == bookie.http_port
        assert info.boot_epoch == bookie.boot
        await link.set_read_only(read_only=True)
        _, metrics = await ask(bookie.http_port, get("/metrics"))
        assert f'zonekeeper_bookie_read_only{{reason="{BY_PERSON}"}} 1\n' in metrics


async def test_a_ledger_of_which_the_metadata_knows_nothing_is_collected(world: World) -> None:
    async with started(world) as bookie, linked(bookie) as link:
        await append_all(link, range(3))
        assert await bookie.end(signal.SIGTERM) == 0
    async with world.cluster() as cluster:
        await cluster.store.delete(ledgers.path(cluster, LEDGER), version=None)
    async with started(world, gc_interval="100ms") as bookie, linked(bookie) as link:
        follow = service.TailRequest(
            ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1 << 20, quiet_ms=100
        )

        async def until_it_is_gone() -> None:
            async for _ in link.tail(follow):
                pass

        # The tail may begin before the collection or after it.
        with pytest.raises((errors.NoSuchLedger, errors.LedgerDeleted)):
            await asyncio.wait_for(until_it_is_gone(), LIMIT_S)
        metrics = ""
        async with asyncio.timeout(LIMIT_S):  # it is counted when it is on the disk
            while "zonekeeper_bookie_gc_forgotten_total 1\n" not in metrics:
                _, metrics = await ask(bookie.http_port, get("/metrics"))
        assert "zonekeeper_bookie_ledgers 0\n" in metrics


async def test_s151_s147_a_full_disk_is_said_with_a_time_and_told_to_the_timeline(
    world: World,
) -> None:
    async with (
        started(world, disk_full="1%", disk_warn="1%", disk_low="1%") as bookie,
        world.cluster() as cluster,
    ):
        told: list[Event] = []
        async with (
            asyncio.timeout(LIMIT_S),
            cluster.store.watch_children(cluster.root.beside("timeline")) as changes,
        ):
            async for _ in changes:
                told = await timeline.newest(cluster)
                if told:
                    break
        assert [(one.kind, one.subject, one.by) for one in told] == [
            ("read-only", f"bookie {BOOKIE}", BOOKIE)
        ]
        async with (
            asyncio.timeout(LIMIT_S),
            cluster.store.watch(cluster.root.read_only(BOOKIE)) as states,
        ):
            while await anext(states) is None:
                pass
        info = await registration.read_service_info(cluster, BOOKIE)
        assert info is not None
        (reason,) = info.read_only
        assert reason.reason.startswith("the device of --data is full: ")
        assert reason.since_ms is not None
        (shown,) = json.loads((await ask(bookie.http_port, get("/state")))[1])["restrictions"]
        assert shown == {
            "what": "read-only",
            "reason": reason.reason,
            "by": BOOKIE,
            "sinceMs": reason.since_ms,
        }


async def test_a_full_disk_makes_it_read_only_and_not_ready(world: World) -> None:
    async with started(world, disk_full="1%", disk_warn="1%", disk_low="1%") as bookie:
        async with linked(bookie) as link, world.cluster() as cluster:
            async with cluster.store.watch(cluster.root.read_only(BOOKIE)) as states:
                async with asyncio.timeout(LIMIT_S):
                    while await anext(states) is None:
                        pass
            assert (await link.info()).state is service.BookieState.READ_ONLY
        status, why = await ask(bookie.http_port, get("/readyz"))
        assert (status, why.startswith("disk: the device of --data is full: ")) == (503, True)


async def test_a_bookie_that_was_killed_does_not_wait_for_its_former_session(world: World) -> None:
    async with world.cluster() as cluster:
        await policy_store.write(cluster, LASTING, replaces=0)
    async with started(world) as bookie:
        assert await bookie.end(signal.SIGKILL) == -signal.SIGKILL
    async with started(world) as again, world.cluster() as cluster:
        info = await registration.read_service_info(cluster, BOOKIE)
        assert info is not None
        assert info.boot_epoch == again.boot == bookie.boot + 1


async def test_a_bookie_whose_sessions_would_outlast_the_policys_does_not_start(
    world: World,
) -> None:
    with zookeeper.single(session_min_ms=15_000) as server:
        world.metadata = f"zk://{server.addresses}/ledgers"
        store = await open_store(world.metadata)
        await clusters.initialise(store, INSTANCE)
        await store.close()
        code, words = await refused(world.arguments())
        async with world.cluster() as cluster:
            assert not await cluster.store.exists(cluster.root.cookie(BOOKIE))
    assert code == 2
    assert "grants no session under 15s, and the policy's zoneWatch.sessionTimeout is 10s" in words


async def test_with_tls_only_who_shows_a_certificate_of_the_authority_is_served(
    world: World, tmp_path: Path
) -> None:
    authority, other = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    mine = authority.sign("bookie", name="bookie", hosts=(BOOKIE,))

    def shown(signer: Authority) -> tls.ClientCredentials:
        pair = signer.sign("client", name="client")
        files = TlsFiles(
            authority=authority.pair.certificate, certificate=pair.certificate, key=pair.key
        )
        return tls.ClientCredentials(files)

    files = {
        "tls_authority": str(authority.pair.certificate),
        "tls_certificate": str(mine.certificate),
        "tls_key": str(mine.key),
    }
    async with started(world, **files) as bookie:
        async with linked(bookie, shown(authority)) as link:
            await append_all(link, range(3))
        for stranger in (shown(other), None):
            async with linked(bookie, stranger) as link:
                with pytest.raises(errors.ProtocolError):
                    async with asyncio.timeout(LIMIT_S):
                        await link.set_read_only(read_only=True)
        _, state = await ask(bookie.http_port, get("/state"))
        assert json.loads(state)["state"] == "writable"
        assert await ask(bookie.http_port, b"POST /state HTTP/1.1\r\n\r\n") == (
            405,
            "only GET: this port is for looking\n",
        )
    code, said = await refused(world.arguments(**{**files, "tls_key": str(tmp_path / "no")}))
    assert (code, "--tls-authority" in said, str(tmp_path / "no") in said) == (1, True, True)


async def test_s130_a_zone_that_the_policy_does_not_name_is_told_and_named_without_a_restart(
    world: World,
) -> None:
    async with world.cluster() as cluster:
        await policy_store.write(cluster, LASTING, replaces=0)
        async with started(world, zone="x") as bookie:
            assert ", gets no ledgers: the policy does not name zone x, only a, b, c" in bookie.line
            status, text = await ask(bookie.http_port, get("/readyz"))
            assert status == 200, "it does its work for the ledgers that it has"
            assert text.startswith("ready\nzone: the policy does not name zone x, only a, b, c: ")
            _, metrics = await ask(bookie.http_port, get("/metrics"))
            assert "zonekeeper_bookie_ready 1\n" in metrics
            _, state = await ask(bookie.http_port, get("/state"))
            assert json.loads(state)["remarks"].keys() == {"zone"}
            assert await registration.read_service_info(cluster, BOOKIE) is not None, "registered"

            zones = (*LASTING.placement.zones, ZoneName("x"))
            named = replace(LASTING, placement=PlacementRules(zones=zones))
            await policy_store.write(cluster, named, replaces=1)
            for _ in range(LOOKS_MAX):
                status, text = await ask(bookie.http_port, get("/readyz"))
                if text == "ready\n":
                    break
                await asyncio.sleep(0.05)
            assert (status, text) == (200, "ready\n")
            async with bookie_watch.watch(cluster) as states:
                seen = await anext(states)
            rules = PlacementRules(zones=zones, min_zones=1, strict=False)
            alone = Quorums(ensemble=1, write=1, ack=1)
            asked = EnsembleRequest(topology=seen, quorums=alone, rules=rules)
            assert selector.choose(asked, random.Random(1)).ensemble == (BOOKIE,)
            known = seen.get(BOOKIE)
            assert known is not None
            assert known.free_bytes, "its room is published, too"

    code, said = await refused(world.arguments(zone="Zone_X", data=f"{world.data}-2", id="bk-x-0"))
    assert (code, "'Zone_X' can be a zone of no policy" in said) == (2, True)


async def test_settings_may_come_from_a_file(world: World, tmp_path: Path) -> None:
    file = tmp_path / "bookie.yaml"
    rest = {"listen": "127.0.0.1:0", "http": "127.0.0.1:0", "upgrade-domains": 3}
    file.write_text(yaml.safe_dump({**rest, "zone": "a", "data": str(world.data)}))
    arguments = [f"--config={file}", f"--metadata={world.metadata}", f"--id={BOOKIE}"]
    process = await launch(arguments)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LIMIT_S):
            assert (await process.stdout.readline()).startswith(b"ready: bookie bk-a-4 at /a/ud-1")
    finally:
        process.terminate()
        await process.communicate()

    file.write_text("zoen: a\n")
    code, said = await refused(arguments)
    assert (code, said.startswith(f"Error: 'zoen' in {file}: there is no such setting")) == (
        2,
        True,
    )
    file.write_text("- a\n")
    assert await refused(arguments) == (2, f"Error: --config: {file}: must be lines of NAME: VALUE")


async def test_a_read_only_bookie_is_registered_as_one(world: World) -> None:
    async with started(world) as bookie, linked(bookie) as link, world.cluster() as cluster:
        async with cluster.store.watch(cluster.root.read_only(BOOKIE)) as states:
            assert await anext(states) is None
            await link.set_read_only(read_only=True)
            async with asyncio.timeout(LIMIT_S):
                assert await anext(states) is not None
        assert await cluster.store.get(cluster.root.writable(BOOKIE)) is None
        assert await ask(bookie.http_port, get("/readyz")) == (200, "ready\n")


async def test_wrong_settings_end_with_2_and_name_the_flag(world: World) -> None:
    assert await refused(world.arguments(listen="nowhere")) == (
        2,
        "Error: --listen: 'nowhere': must be HOST:PORT, such as 0.0.0.0:3181 or [::1]:8080",
    )
    code, said = await refused(world.arguments(upgrade_domains="0"))
    assert code == 2
    assert "--upgrade-domains" in said
    code, said = await refused(["--data=/data"])
    assert code == 2
    assert said.startswith("Error: --metadata: must be given (or ZONEKEEPER_METADATA")
    assert not world.data.exists()


async def test_what_is_wrong_with_the_world_ends_with_one_line_and_no_cluster_is_refused(
    world: World, tmp_path: Path
) -> None:
    async def said(expected: int = 1, **changed: str) -> str:
        code, line = await refused(world.arguments(**changed))
        assert code == expected
        return line

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"--listen: cannot listen on {address}: Address already in use" in await said(
            listen=address
        )
        assert f"--http: cannot listen on {address}" in await said(http=address)
    assert not world.data.exists()
    assert "missing/data cannot be used" in await said(data=str(tmp_path / "missing" / "data"))
    assert "/nobody" in await said(2, metadata=f"sqlite://{tmp_path}/meta.db?root=/nobody")
    assert str(tmp_path / "none") in await said(2, metadata=f"sqlite://{tmp_path}/none/meta.db")
    assert [path.name for path in world.data.iterdir()] == [identity.LOCK_NAME]
    async with world.cluster() as cluster:
        assert await cookie_store.ids(cluster) == []


async def test_a_disk_that_is_not_its_own_is_refused_in_words(world: World) -> None:
    async with started(world) as bookie:
        code, line = await refused(world.arguments())
        assert (code, "is in use by another process" in line) == (2, True)
        assert await bookie.end(signal.SIGTERM) == 0

    code, line = await refused(world.arguments(id="bk-a-7"))
    assert (code, "has bookie 'bk-a-4'" in line) == (2, True)
    code, line = await refused(world.arguments(zone="b"))
    assert (code, "starts in zone b" in line) == (2, True)
    code, line = await refused(world.arguments(data=str(world.folder / "new")))
    assert (code, "has journal_dirs" in line or "no file VERSION" in line) == (2, True)


async def test_a_folder_that_is_a_file_is_refused(world: World) -> None:
    world.data.touch()

    code, line = await refused(world.arguments())

    assert (code, line) == (1, f"Error: --data: {world.data} cannot be used: File exists")


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
async def test_a_folder_that_cannot_be_written_is_refused(world: World) -> None:
    world.data.mkdir(mode=0o500)

    code, line = await refused(world.arguments())

    assert code == 1
    assert f"--data: {world.data} cannot be written: Permission denied" in line
