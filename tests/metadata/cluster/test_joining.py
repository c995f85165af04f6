"""A process that joins a cluster for good has a session as long as the policy says."""

import dataclasses
import re
import uuid
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.support import zookeeper
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import joining, policy_store
from zonekeeper.metadata.cluster.cluster import NotAClusterError
from zonekeeper.metadata.cluster.joining import SessionTooLongError
from zonekeeper.metadata.store.errors import NoStoreError
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy, RepairRules, ZoneWatchRules

POLICY = Policy(placement=PlacementRules(zones=(ZoneName("a"), ZoneName("b"), ZoneName("c"))))
SERVER_MIN_MS = 8_000


def with_sessions_of(session_ms: int) -> Policy:
    return dataclasses.replace(
        POLICY,
        zone_watch=ZoneWatchRules(session_timeout_ms=session_ms),
        repair=RepairRules(bookie_recovery_delay_ms=session_ms + 600_000),
    )


async def make(address: str, policy: Policy | None) -> None:
    store = await open_store(address)
    cluster = await clusters.initialise(store, str(uuid.uuid4()))
    if policy is not None:
        await policy_store.write(cluster, policy, replaces=0)
    await store.close()


async def granted_ms(address: str) -> int:
    cluster = await joining.join(address)
    await cluster.store.close()
    return cluster.store.session_timeout_ms


@pytest.fixture(scope="module")
def server() -> Iterator[zookeeper.Ensemble]:
    with zookeeper.single(session_min_ms=SERVER_MIN_MS) as ensemble:
        yield ensemble


@pytest.fixture(params=["sqlite", pytest.param("zookeeper", marks=pytest.mark.contracts)])
def address(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return f"sqlite://{request.getfixturevalue('tmp_path')}/meta.db"
    servers = request.getfixturevalue("server").addresses
    return f"zk://{servers}/{uuid.uuid4().hex}"


@pytest.mark.parametrize("session_ms", [SERVER_MIN_MS, 10_000, 30_000])
async def test_a_session_is_as_long_as_the_policy_says(address: str, session_ms: int) -> None:
    await make(address, with_sessions_of(session_ms))
    assert await granted_ms(address) == session_ms


async def test_without_a_policy_it_is_as_long_as_by_default(address: str) -> None:
    await make(address, None)
    assert await granted_ms(address) == ZoneWatchRules().session_timeout_ms


async def test_where_there_is_no_cluster_nobody_joins(address: str) -> None:
    with pytest.raises((NotAClusterError, NoStoreError), match="cluster init"):
        await joining.join(address)


async def test_a_policy_that_cannot_be_read_keeps_nobody_out(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    await make(address, with_sessions_of(30_000))
    store = await open_store(address)
    path = (await clusters.open_cluster(store)).root.beside("policy")
    await store.put(path, b"spoiled", version=0)
    await store.close()
    assert await granted_ms(address) == ZoneWatchRules().session_timeout_ms
    assert "since it cannot be read" in caplog.text


@pytest.mark.contracts
async def test_the_server_holds_the_session_for_as_long_as_the_policy_says(
    server: zookeeper.Ensemble,
) -> None:
    address = f"zk://{server.addresses}/{uuid.uuid4().hex}"
    await make(address, with_sessions_of(9_000))
    cluster = await joining.join(address)
    session = cluster.store.session.id
    assert session is not None
    asking = KazooClient(server.addresses)
    asking.start()
    (line,) = [one for one in asking.command(b"cons").splitlines() if f"sid=0x{session:x}," in one]
    asking.stop()
    asking.close()
    await cluster.store.close()
    assert re.findall(r"\bto=(\d+)", line) == ["9000"]


@pytest.mark.contracts
async def test_a_server_that_grants_only_longer_sessions_is_not_joined(
    server: zookeeper.Ensemble,
) -> None:
    address = f"zk://{server.addresses}/{uuid.uuid4().hex}"
    await make(address, with_sessions_of(SERVER_MIN_MS - 1_000))
    with pytest.raises(SessionTooLongError) as refused:
        await joining.join(address)
    said = str(refused.value)
    assert "grants no session under 8s, and the policy's zoneWatch.sessionTimeout is 7s" in said
    assert "raise the policy's to 8s or more, or lower minSessionTimeout" in said
