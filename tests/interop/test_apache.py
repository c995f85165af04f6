"""Apache BookKeeper's tools read what we write, and we read what they write.

Everything here is a claim that the docs make, tried on the real programs: see docs/interop.md.
"""

import asyncio
import itertools
import re
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.apache import Apache, artifacts
from tests.support import zookeeper
from zonekeeper.metadata.bookies import cookie_store, registration
from zonekeeper.metadata.cluster import cluster, repair_controls
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies, service_info
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.ledgers import ledger_listing, ledgers, underreplication
from zonekeeper.metadata.store import layout
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import (
    NO_ENTRY,
    BookieId,
    EntryId,
    LedgerId,
    UpgradeDomain,
    ZoneName,
)
from zonekeeper.placement.base.locations import Location

pytestmark = pytest.mark.interop

LOCATION = Location(ZoneName("az-1"), UpgradeDomain("ud-0"))
WITH_PORT = BookieId("127.0.0.1:3181")
NAMED = BookieId("log-a-0")


@pytest.fixture(scope="module")
def addresses() -> Iterator[str]:
    with zookeeper.single() as server:
        yield server.addresses


@pytest.fixture(scope="module")
def jars() -> Path:
    return artifacts()


@pytest.fixture
def root() -> str:
    return f"/ledgers-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def apache(jars: Path, tmp_path: Path, addresses: str, root: str) -> Apache:
    return Apache(jars, tmp_path, f"zk+hierarchical://{addresses}{root}")


Use = Callable[[Cluster], Awaitable[None]]


@contextmanager
def ours(addresses: str, root: str) -> Iterator[Callable[[Use], None]]:
    """Run coroutines on our own store, all in one session, between Apache's programs."""
    loop = asyncio.new_event_loop()
    store = loop.run_until_complete(open_store(f"zk://{addresses}{root}"))
    try:
        made = loop.run_until_complete(cluster.initialise(store, str(uuid.uuid4())))
        yield lambda use: loop.run_until_complete(_await(use(made)))
    finally:
        loop.run_until_complete(store.close())
        loop.close()


async def _await(waited: Awaitable[None]) -> None:
    await waited


def ledger(state: LedgerState, digest: Digest) -> LedgerMetadata:
    closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        ensemble_size=2,
        write_quorum=2,
        ack_quorum=1,
        fragments=(
            Fragment(EntryId(0), (WITH_PORT, NAMED)),
            Fragment(EntryId(5), (NAMED, BookieId("log-b-0"))),
        ),
        digest=digest,
        password=b"passwd",
        state=state,
        last_entry=EntryId(11) if closed else NO_ENTRY,
        length=1234 if closed else 0,
        created_ms=1_700_000_000_000,
        custom=(("zonekeeper.placement", b"{}"),),
        create_token=42,
    )


def cookie(bookie: BookieId, instance: str) -> Cookie:
    return Cookie(
        bookie=bookie,
        journal_dirs=("/data/journal",),
        ledger_dirs=("/data/ledgers",),
        instance=instance,
        location=LOCATION,
    )


def test_apache_reads_a_ledger_of_every_state_and_digest(
    apache: Apache, addresses: str, root: str
) -> None:
    kinds = dict(enumerate(itertools.product(LedgerState, Digest)))

    async def write(made: Cluster) -> None:
        for number, (state, digest) in kinds.items():
            metadata = ledger(state, digest)
            await ledgers.create(made, metadata, ledger_id=LedgerId(number))

    with ours(addresses, root) as run:
        run(write)
    listed = apache.shell("listledgers", "-meta")

    assert listed.code == 0
    found = dict(re.findall(r"ledgerID: (\d+).*\n.*?(LedgerMetadata\{.*)", listed.text))
    assert len(found) == len(kinds), listed.text
    assert "state=OPEN" in apache.shell("ledgermetadata", "-ledgerid", "0").text
    for number, (state, digest) in kinds.items():
        text = found[str(number)]
        for part in (
            f"state={state.value}",
            f"digestType={'MAC' if digest is Digest.HMAC else digest.value}",
            "ensembleSize=2",
            "writeQuorumSize=2",
            "ackQuorumSize=1",
            "0=[127.0.0.1:3181, log-a-0]",
            "5=[log-a-0, log-b-0]",
        ):
            assert part in text, (number, part, text)
        if state is LedgerState.CLOSED:
            assert "length=1234" in text
            assert "lastEntryId=11" in text


def test_apache_knows_our_cluster_and_our_bookies(
    apache: Apache, addresses: str, root: str
) -> None:
    seen: list[str] = []

    async def write(made: Cluster) -> None:
        for bookie, host in ((WITH_PORT, "127.0.0.1"), (NAMED, "10.0.0.7")):
            await cookie_store.create(made, cookie(bookie, made.instance))
            room = service_info.PublishedRoom(free_bytes=1 << 30, total_bytes=1 << 40)
            info = service_info.of_bookie(host, 3181, LOCATION, tls=False).with_room(room)
            registrar = registration.Registrar(made, bookie, info, session_timeout_ms=10_000)
            mode = registration.Mode.WRITABLE if bookie == NAMED else registration.Mode.READ_ONLY
            await registrar.register(mode)
        seen.append(made.instance)

    with ours(addresses, root) as run:
        run(write)
        assert seen[0] in apache.shell("whatisinstanceid").line("InstanceId: (\\S+)")[1]
        assert "log-a-0" in apache.shell("listbookies", "-rw").text
        assert "127.0.0.1:3181" in apache.shell("listbookies", "-ro").text
        everyone = apache.shell("listbookies", "-a")
        assert "log-a-0" in everyone.text
        assert "127.0.0.1:3181" in everyone.text
        endpoints = apache.shell("endpointinfo", "-b", "log-a-0")
        endpoints.line("zonekeeper-grpc")
        endpoints.line("10.0.0.7")
        endpoints.line(r"networkLocation\s*:\s*/az-1/ud-0")
        endpoints.line(r"room\s*:\s*v1 free=1073741824 total=1099511627776")


def test_apache_reads_our_cookies_and_the_location_harms_no_command(
    apache: Apache, addresses: str, root: str, tmp_path: Path
) -> None:
    async def write(made: Cluster) -> None:
        for bookie in (WITH_PORT, NAMED):
            await cookie_store.create(made, cookie(bookie, made.instance))

    async def still_located(made: Cluster) -> None:
        for bookie in (NAMED, WITH_PORT):
            kept = await cookie_store.read(made, bookie)
            assert kept is not None
            assert kept.cookie.location == LOCATION

    async def removed(made: Cluster) -> None:
        assert await cookie_store.read(made, WITH_PORT) is None
        written = cookies.render(cookie(WITH_PORT, made.instance))
        (tmp_path / "cookie").write_bytes(written)

    with ours(addresses, root) as run:
        run(write)
        by_api = apache.source("ReadCookie.java", apache.metadata_uri, WITH_PORT, NAMED)
        assert by_api.code == 0, by_api.text
        by_api.line("COOKIE 127.0.0.1:3181 .*/data/ledgers")
        by_api.line("COOKIE log-a-0 .*/data/ledgers")
        got = apache.shell("cookie_get", WITH_PORT)
        assert got.code == 0, got.text
        got.line('bookieHost: "127.0.0.1:3181"')
        assert apache.shell("cookie_get", NAMED).code != 0, (
            "an id without a port: refused by Apache"
        )
        run(still_located)
        assert apache.shell("cookie_delete", WITH_PORT).code == 0
        run(removed)
        file = str(tmp_path / "cookie")
        assert apache.shell("cookie_create", "-cf", file, WITH_PORT).code == 0
        run(still_located)
        assert apache.shell("cookie_update", "-cf", file, WITH_PORT).code == 0
        run(still_located)


def test_the_repair_list_and_its_switch_are_shared(
    apache: Apache, addresses: str, root: str
) -> None:
    async def mark(made: Cluster) -> None:
        await ledgers.create(made, ledger(LedgerState.CLOSED, Digest.CRC32C), ledger_id=LedgerId(7))
        await underreplication.mark(made, LedgerId(7), [NAMED], at_ms=1_700_000_000_000)

    async def disabled(made: Cluster) -> None:
        assert not await repair_controls.is_enabled(made)
        await repair_controls.set_enabled(made, enabled=True)

    async def enabled(made: Cluster) -> None:
        assert await repair_controls.is_enabled(made)
        await repair_controls.set_enabled(made, enabled=False)

    async def delayed(made: Cluster) -> None:
        delay = await made.store.get(made.root.below("underreplication/lostBookieRecoveryDelay"))
        assert delay is not None
        assert delay.value == b"77"
        await repair_controls.write_delay_s(made, 300)

    with ours(addresses, root) as run:
        run(mark)
        listed = apache.shell("listunderreplicated", "-printmissingreplica")
        assert listed.code == 0, listed.text
        listed.line(r"(?s)7.*log-a-0")
        assert apache.shell("autorecovery", "-disable").code == 0
        run(disabled)
        assert apache.shell("autorecovery", "-disable").code == 0
        assert apache.shell("autorecovery", "-enable").code == 0
        run(enabled)
        apache.shell("autorecovery").line("(?i)disabled")
        assert apache.shell("lostbookierecoverydelay", "-set", "77").code == 0
        run(delayed)
        apache.shell("lostbookierecoverydelay", "-get").line("300")


def test_we_read_what_apache_wrote_and_keep_out_of_its_root(
    apache: Apache, addresses: str, root: str
) -> None:
    """A root that Apache made and uses is read, and neither taken over nor registered in."""
    assert apache.shell("initnewcluster").code == 0
    with apache.bookie() as bookie:
        written = apache.source("WriteLedgers.java", apache.metadata_uri)
        assert written.code == 0, written.text
        said = re.findall(r"LEDGER (\d+) (\w+) (\w+)", written.text)
        assert len(said) == len(Digest) + 1

        asyncio.run(_stay_out(f"zk://{addresses}{root}"))
        asyncio.run(_read_apaches(f"zk://{addresses}{root}", BookieId(bookie), said))


async def _stay_out(uri: str) -> None:
    store = await open_store(uri)
    try:
        with pytest.raises(cluster.ForeignRootError):
            await cluster.initialise(store, str(uuid.uuid4()))
        with pytest.raises(cluster.ForeignRootError):
            await cluster.open_cluster(store)
    finally:
        await store.close()


async def _read_apaches(uri: str, bookie: BookieId, said: list[tuple[str, str, str]]) -> None:
    store = await open_store(uri)
    try:
        node = await store.get(f"{store.root}/INSTANCEID")
        assert node is not None
        foreign = Cluster(store, layout.Root(store.root), node.value.decode())
        listed = {one.id: one async for one in ledger_listing.all_of(foreign)}
        for number, digest, state in said:
            one = listed.pop(LedgerId(int(number)))
            assert isinstance(one, ledgers.StoredLedger)
            assert one.metadata.digest is (Digest.HMAC if digest == "MAC" else Digest(digest))
            assert one.metadata.state is LedgerState(state)
            assert one.metadata.last_fragment.ensemble == (bookie,)
            assert one.metadata.custom_value("team") == b"storage"
            if one.metadata.is_closed:
                assert (one.metadata.last_entry, one.metadata.length) == (9, 1000)
        assert not listed
        kept = await cookie_store.read(foreign, bookie)
        assert kept is not None
        assert kept.cookie.bookie == bookie
        assert kept.cookie.location is None
        info = await registration.read_service_info(foreign, bookie)
        assert info is not None
        assert info.bookie is None, "Apache's endpoint is not ours"
        with pytest.raises(registration.ForeignBookiesError):
            await registration.refuse_foreign(foreign)
    finally:
        await store.close()
