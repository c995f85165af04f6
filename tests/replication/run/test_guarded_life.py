"""A life on a real ZooKeeper with an identity for each role: no node is open, nobody is refused.

Real bookies, a real autorecovery process, a client of ledgers and logs, and a person at the shell,
each with the password of its role alone.
"""

import asyncio
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.client.patience import PATIENT
from tests.metadata.access import owning
from tests.metadata.stores.test_zookeeper_roles import worlds
from tests.support import roles, zookeeper
from tests.support.autorecovery_processes import AutorecoveryProcesses, autorecovery_processes
from tests.support.bookie_processes import bookie_processes
from tests.support.ready_processes import SHELL
from zonekeeper.client.api.client import connect
from zonekeeper.client.base import errors
from zonekeeper.log.api import log_client
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import elections, policy_store
from zonekeeper.metadata.saving import securing
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

pytestmark = pytest.mark.processes

ZONES = {BookieId(f"bk-{zone}-{n}"): ZoneName(zone) for zone in "ab" for n in range(2)}
DRAINED = BookieId("bk-a-0")
AUTO = BookieId("auto")
#: What a process says of a right that it lacks.
REFUSED = ("does not allow it", "needs the role")


def address(servers: str, folder: Path, role: StoreRole) -> str:
    """Give the address for a process of this role, whose password is in a file."""
    file = folder / f"{role}.auth"
    file.write_text(roles.secret(role))
    return f"zk://{servers}/ledgers?acl=open&auth-file={file}"


async def found(servers: str, folder: Path) -> None:
    """Make the root as an operator does; an owner of ledgers has an identity of its own."""
    store = await open_store(address(servers, folder, StoreRole.OPERATOR))
    instance = str(uuid.uuid4())
    also = await securing.beginning(store, Root(store.root), owning.IDENTITIES, instance)
    cluster = await clusters.initialise(store, instance, also=also)
    policy = Policy(
        quorums=Quorums(ensemble=2, write=2, ack=2, ack_zones=1),
        placement=PlacementRules(zones=(ZoneName("a"), ZoneName("b")), min_zones=1),
    )
    await policy_store.write(cluster, policy, replaces=0)
    await store.close()


async def write(at: str) -> None:
    """Write ledgers and a log, and delete some of them."""
    async with log_client.connect(at, PATIENT) as logs:
        ids = []
        for _ in range(3):
            async with logs.client.create(password=b"owner") as writer:
                await writer.append(b"entry")
                ids.append(int(writer.ledger_id))
        await logs.client.delete(ids.pop())
        await logs.create("orders")
        async with logs.writer("orders") as log:
            await log.append_and_wait(LogMessage(payload=b"message"))
        await logs.delete("orders")


def address_of_owner(servers: str, folder: Path) -> str:
    file = folder / "ingest.auth"
    file.write_text(owning.SECRETS[owning.INGEST])
    return f"zk://{servers}/ledgers?acl=open&auth-file={file}"


async def write_owned(own: str, other: str) -> None:
    """An owner writes, recovers and reads a ledger that no other client may open."""
    async with connect(own, PATIENT) as ours, connect(other, PATIENT) as theirs:
        writer = await ours.create(password=b"owner", owner=owning.INGEST)
        await writer.append(b"entry")
        with pytest.raises(errors.MetadataFailed, match="is that owner's alone"):
            await theirs.open(writer.ledger_id, password=b"owner", recover=True)
        with pytest.raises(errors.MetadataFailed, match="could not close the ledger"):
            await theirs.create(password=b"owner", owner=owning.INGEST)
        async with ours.open(writer.ledger_id, password=b"owner", recover=True) as reader:
            assert [entry.payload async for entry in reader.read_entries()] == [b"entry"]


async def taken_up(at: str, repair: AutorecoveryProcesses) -> None:
    """Wait until the autorecovery process works on the order."""
    store = await open_store(at)
    path = "/ledgers.zonekeeper/order-claims"
    async with asyncio.timeout(60), store.watch_children(path) as seen:
        async for names in seen:
            assert repair.ended() == [], repair.words(AUTO)
            if names:
                break
    await store.close()


def test_no_node_of_a_life_is_open_to_the_world(tmp_path: Path) -> None:
    with zookeeper.single() as ensemble:
        servers = ensemble.addresses
        at = {role: address(servers, tmp_path, role) for role in StoreRole}
        asyncio.run(found(servers, tmp_path))
        with (
            bookie_processes(at[StoreRole.BOOKIE], tmp_path, ZONES) as bookies,
            autorecovery_processes(
                at[StoreRole.AUTORECOVERY], tmp_path, {AUTO: ZoneName("b")}
            ) as repair,
        ):
            bookies.start()
            repair.start()
            asyncio.run(write(at[StoreRole.CLIENT]))
            owner = address_of_owner(servers, tmp_path)
            asyncio.run(write_owned(owner, at[StoreRole.CLIENT]))
            asyncio.run(_voted(at[StoreRole.ADMIN], repair))
            order = [*SHELL, "bookies", "drain", DRAINED, "--yes", "--no-follow", "--quiet"]
            asked = ["--reason", "a test", "--metadata", at[StoreRole.ADMIN]]
            done = subprocess.run(
                [*order, *asked, "--store-timeout", "60"],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            asyncio.run(taken_up(at[StoreRole.ADMIN], repair))
            assert asyncio.run(worlds(ensemble, "/ledgers")) == []
            asyncio.run(_fits(at[StoreRole.ADMIN]))
            for name in (*ZONES, AUTO):
                words = (tmp_path / name / "log").read_text()
                assert not any(refused in words for refused in REFUSED), words


async def _voted(at: str, repair: AutorecoveryProcesses) -> None:
    """Wait until the autorecovery process stands for the auditor."""
    store = await open_store(at)
    cluster = await clusters.open_cluster(store)
    async with asyncio.timeout(60), store.watch_children(elections.auditor_votes(cluster)) as seen:
        async for names in seen:
            assert repair.ended() == [], repair.words(AUTO)
            if names:
                break
    await store.close()


async def _fits(at: str) -> None:
    """Every node has the ACL of its kind, and is of one."""
    store = await open_store(at)
    report = await securing.secure(await clusters.open_cluster(store), None, dry_run=True)
    assert (report.changed, report.made, report.strange_paths) == (0, 0, [])
    await store.close()
