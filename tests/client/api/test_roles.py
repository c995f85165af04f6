"""Applications with certificates of roles, on a bookie's process: what each may do, and hears.

The bookie serves both transports, and its log and its metrics say what was refused.
"""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.client.patience import PATIENT
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.certificates import Authority, certified, of_role
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.wire.formats import errors as wire_errors
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import ANY_INSTANCE, Role, uri_of
from zonekeeper.wire.running import audit_log

BOOKIE = BookieId("bk-a-0")
POLICY = Policy(
    placement=PlacementRules(zones=(ZoneName("a"),), min_zones=1, desired_zones=1, strict=False),
    quorums=Quorums(ensemble=1, write=1, ack=1),
)


class Place:
    """A bookie with TLS that holds the rights of roles."""

    def __init__(self, folder: Path, flags: dict[str, str]) -> None:
        self.authority = Authority(folder / "authority")
        self.address = f"sqlite://{folder}/meta.db"
        asyncio.run(make_cluster(self.address, POLICY))
        mine = of_role(self.authority, Role.BOOKIE, hosts=(BOOKIE,))
        self.flags = {
            "--tls-authority": str(mine.authority),
            "--tls-certificate": str(mine.certificate),
            "--tls-key": str(mine.key),
            "--listen-socket": "127.0.0.1:0",
            "--log-format": "json",
            **flags,
        }
        self.bookies: BookieProcesses | None = None

    @asynccontextmanager
    async def client(
        self, files: TlsFiles, way: BookieWay = BookieWay.GRPC
    ) -> AsyncIterator[Client]:
        async with clients.connect(self.address, replace(PATIENT, tls=files, way=way)) as client:
            yield client

    def files(self, role: Role) -> TlsFiles:
        return of_role(self.authority, role)

    def client_named(self, name: str) -> TlsFiles:
        """Give a certificate of a client that has this name."""
        uri = uri_of(ANY_INSTANCE, Role.CLIENT, name)
        pair = self.authority.sign(name, name=name, uris=(uri,))
        trusted = self.authority.pair.certificate
        return TlsFiles(authority=trusted, certificate=pair.certificate, key=pair.key)

    def audited(self) -> list[tuple[object, ...]]:
        """Give what the audit told: operation, outcome and principal."""
        assert self.bookies is not None
        found = [json.loads(line) for line in self.bookies.words(BOOKIE).splitlines()]
        told = [line for line in found if line["logger"] == audit_log.NAME]
        assert all(json.loads(line["event"])["operation"] == line["operation"] for line in told)
        return [(line["operation"], line["outcome"], line["principal"]) for line in told]

    def metrics(self) -> str:
        assert self.bookies is not None
        words = self.bookies.said(BOOKIE).replace(",", "").split()
        with urllib.request.urlopen(f"http://{words[words.index('http') + 1]}/metrics") as answer:
            text: str = answer.read().decode()
            return text


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, getattr(request, "param", {}))
    zones = {BOOKIE: ZoneName("a")}
    with bookie_processes(made.address, tmp_path, zones, flags=made.flags) as bookies:
        made.bookies = bookies
        bookies.start()
        yield made


async def written(client: Client) -> LedgerId:
    """Write a ledger, and leave it open."""
    writer = await client.create()
    try:
        await writer.append(b"one")
        await writer.flush()
    finally:
        writer.halt()
    return LedgerId(writer.ledger_id)


@pytest.mark.parametrize("way", [BookieWay.GRPC, BookieWay.SOCKET])
def test_each_role_does_what_it_may_and_hears_which_role_is_missing(
    place: Place, way: BookieWay
) -> None:
    async def play() -> None:
        async with (
            place.client(place.files(Role.CLIENT), way) as application,
            place.client(place.files(Role.MONITOR), way) as monitor,
            place.client(place.files(Role.AUTORECOVERY), way) as repair,
            place.client(place.files(Role.ADMIN), way) as admin,
        ):
            ledger = await written(application)
            with pytest.raises(errors.RoleRefused, match="monitor-1 asks for open") as stopped:
                await written(monitor)
            assert not stopped.value.retryable
            with pytest.raises(errors.NotPermitted, match="monitor-1 asks for read-lac") as caught:
                await monitor.open(ledger, recover=False)
            assert not caught.value.retryable
            assert not caught.value.maybe_applied
            with pytest.raises(errors.NotPermitted, match="monitor-1 asks for fence") as begun:
                await monitor.open(ledger, recover=True)
            assert begun.value.maybe_applied
            with pytest.raises(errors.RoleRefused, match="needs the role admin or client"):
                await written(repair)

            link = await application.bookies.pool.link(BOOKIE)
            with pytest.raises(wire_errors.NotPermitted, match="role autorecovery or admin"):
                await link.set_read_only(read_only=True)
            with pytest.raises(wire_errors.NotPermitted, match="role autorecovery;"):
                await link.end_limbo(ledger, 1)

            reader = await repair.open(ledger, recover=True)
            assert reader.last_confirmed == 0
            with pytest.raises(errors.NotPermitted, match="monitor-1 asks for read,"):
                await anext((await monitor.open(ledger)).read_entries(0, 0))
            of_admin = await admin.bookies.pool.link(BOOKIE)
            await of_admin.set_read_only(read_only=True)
            await of_admin.set_read_only(read_only=False)

    asyncio.run(play())
    told = place.audited()
    assert ("open", "refused", "monitor/monitor-1") in told
    assert ("fence", "refused", "monitor/monitor-1") in told
    assert ("fence", "done", "autorecovery/autorecovery-1") in told
    assert ("end-limbo", "refused", "client/client-1") in told
    assert told.count(("set-read-only", "done", "admin/admin-1")) == 2
    shown = place.metrics()
    refused = 'zonekeeper_bookie_access_refusals_total{operation="set-read-only",role="client"'
    assert f'{refused},outcome="refused"}} 1' in shown
    assert 'zonekeeper_bookie_access{enforcement="named"} 1' in shown


def test_a_certificate_of_the_time_before_roles_still_does_all_that_it_did(place: Place) -> None:
    async def play() -> None:
        before = certified(place.authority, "some-application", "before")
        async with place.client(before) as client:
            ledger = await written(client)
            assert (await client.open(ledger, recover=True)).last_confirmed == 0
            link = await client.bookies.pool.link(BOOKIE)
            await link.set_read_only(read_only=False)

    asyncio.run(play())
    told = place.audited()
    assert ("open", "warned", "nobody") in told
    assert ("fence", "warned", "nobody") in told
    assert ("fence", "done", "nobody") in told
    assert 'operation="set-read-only",role="none",outcome="warned"} 1' in place.metrics()


@pytest.mark.parametrize("place", [{"--access": "on"}], indirect=True)
def test_it_is_refused_when_access_is_on(place: Place) -> None:
    async def play() -> None:
        before = certified(place.authority, "some-application", "before")
        async with place.client(before) as client:
            with pytest.raises(errors.RoleRefused, match=r"\(some-application\) names no role"):
                await written(client)

    asyncio.run(play())


@pytest.mark.parametrize("place", [{"--ledger-owners": "on"}], indirect=True)
def test_a_ledger_of_ones_own_is_no_other_client_s(place: Place) -> None:
    """After a start of the bookie the owner is read in the metadata again."""

    async def written_by_its_owner() -> int:
        async with (
            place.client(place.client_named("ingest")) as owner,
            place.client(place.client_named("other")) as other,
            place.client(place.client_named("other"), BookieWay.SOCKET) as by_socket,
        ):
            writer = await owner.create(owner=True)
            await writer.append_and_wait(b"one")
            for stranger in (other, by_socket):
                with pytest.raises(errors.NotPermitted, match="which is of client/ingest") as told:
                    await stranger.open(writer.ledger_id, recover=False)
                assert not told.value.retryable
                assert not told.value.maybe_applied
            await writer.append_and_wait(b"two")
            await writer.close()
            return writer.ledger_id

    async def read_by_all(ledger_id: int) -> None:
        async with (
            place.client(place.client_named("other")) as other,
            place.client(place.client_named("ingest")) as owner,
            place.client(place.files(Role.ADMIN)) as admin,
        ):
            with pytest.raises(errors.NotPermitted, match="which is of client/ingest"):
                await anext((await other.open(ledger_id)).read_entries(0, 1))
            for reader in (owner, admin):
                found = (await reader.open(ledger_id)).read_entries(0, 1)
                assert [bytes(one.payload) async for one in found] == [b"one", b"two"]

    ledger_id = asyncio.run(written_by_its_owner())
    assert ("read-lac", "refused", "client/other") in place.audited()
    assert place.bookies is not None
    place.bookies.kill(BOOKIE)
    place.bookies.start()
    asyncio.run(read_by_all(ledger_id))
    assert ("read", "refused", "client/other") in place.audited()
    shown = place.metrics()
    assert 'zonekeeper_bookie_owners{rule="on"} 1' in shown
    refused = 'zonekeeper_bookie_owner_refusals_total{operation="read",role="client"'
    assert f'{refused},outcome="refused"}} 1' in shown
