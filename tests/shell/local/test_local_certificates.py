"""A local cluster's certificates are of one authority whose key nobody has, and are kept."""

import itertools
import os
import shutil
import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shell.local_world import LocalWorld
from zonekeeper.client.api.client import connect
from zonekeeper.client.base import beside_store, errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.commands import exits
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.shell.local import local_certificates, local_state
from zonekeeper.shell.local.local_certificates import LEFT_MS, LIFETIME_MS
from zonekeeper.shell.local.local_cluster import LocalCluster
from zonekeeper.shell.local.local_folder import Folder
from zonekeeper.shell.local.local_processes import ProcessMark
from zonekeeper.shell.local.local_shape import Shape
from zonekeeper.shell.local.local_starting import LocalStart
from zonekeeper.shell.local.local_state import LocalState
from zonekeeper.shell.reaching import connecting, reaching
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.wire.identity import certificates, principals
from zonekeeper.wire.identity.principals import Principal, Role
from zonekeeper.wire.signing import pem

#: Any time at all: nothing here asks a clock.
NOW_MS = 4_000_000_000_000
SHAPE = Shape(bookies_per_zone=1, autorecovery=1, tls=True)
NAMES = local_certificates.wanted(SHAPE, "instance-1")


def read_all(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    assert local_certificates.provide(tmp_path / "tls", NAMES, wall_ms=NOW_MS)
    return tmp_path / "tls"


def test_each_process_has_its_role_and_only_a_bookie_can_be_a_server(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == sorted(NAMES)
    roles = {
        "bk-a-0": Role.BOOKIE,
        "bk-b-0": Role.BOOKIE,
        "bk-c-0": Role.BOOKIE,
        "auto-0": Role.AUTORECOVERY,
        "admin": Role.ADMIN,
        "client": Role.CLIENT,
    }
    assert set(roles) == set(NAMES)
    for name, role in roles.items():
        found = (made / name / "tls.crt").read_bytes()
        seen = certificates.names_in(ssl.PEM_cert_to_DER_cert(found.decode()))
        (uri,) = seen.uris
        assert principals.parse(uri, "instance-1") == Principal(role, name)
        assert not isinstance(principals.parse(uri, "instance-2"), Principal), "of another cluster"
        assert seen.dns == ((name,) if role is Role.BOOKIE else ())


def test_the_key_of_the_authority_is_nowhere_and_other_keys_are_their_owner_s(made: Path) -> None:
    authority = (made / "admin" / "ca.crt").read_bytes()
    assert pem.is_authority(authority)
    for path, data in read_all(made).items():
        assert not pem.belongs(data, authority), path
        assert (stat.S_IMODE(path.stat().st_mode) == 0o600) == (path.name == "tls.key")


def test_what_is_good_stays_as_it_is(made: Path) -> None:
    before = read_all(made)
    last_ms = NOW_MS + LIFETIME_MS - LEFT_MS
    assert not local_certificates.provide(made, NAMES, wall_ms=last_ms)
    assert read_all(made) == before


def other_key(made: Path) -> None:
    shutil.copy(made / "bk-a-0" / "tls.key", made / "bk-b-0" / "tls.key")


def other_authority(made: Path) -> None:
    """A start that was cut short had renewed one folder of all."""
    another = made.parent / "another"
    local_certificates.provide(another, NAMES, wall_ms=NOW_MS)
    shutil.rmtree(made / "bk-c-0")
    (another / "bk-c-0").rename(made / "bk-c-0")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: shutil.rmtree(made / "auto-0"),
        lambda made: (made / "admin" / "ca.crt").unlink(),
        lambda made: (made / "admin" / "tls.crt").write_bytes(b"no certificate"),
        other_key,
        other_authority,
    ],
    ids=["no folder", "no authority", "damaged", "another's key", "another authority"],
)
def test_what_is_not_whole_is_made_anew_under_one_authority(
    made: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(made)
    assert local_certificates.provide(made, NAMES, wall_ms=NOW_MS)
    assert not local_certificates.provide(made, NAMES, wall_ms=NOW_MS)
    assert len({(made / name / "ca.crt").read_bytes() for name in NAMES}) == 1


def test_what_ends_soon_or_is_of_another_cluster_is_made_anew(made: Path) -> None:
    soon_ms = NOW_MS + LIFETIME_MS - LEFT_MS + units.DAY_MS
    assert local_certificates.provide(made, NAMES, wall_ms=soon_ms)
    others = local_certificates.wanted(SHAPE, "instance-2")
    assert local_certificates.provide(made, others, wall_ms=soon_ms)


@pytest.mark.parametrize("name", [beside_store.ADMIN, beside_store.CLIENT])
def test_a_certificate_is_found_beside_the_store(made: Path, name: str) -> None:
    found = beside_store.found(f"sqlite://{made.parent}/meta.db", name)
    assert found == beside_store.files_in(made / name)
    assert beside_store.found(f"sqlite://{made}/meta.db", name) is None
    assert beside_store.found("zk://127.0.0.1:2181/ledgers", name) is None
    assert beside_store.found("memory:", name) is None


@pytest.mark.parametrize("file", ["ca.crt", "tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN NOTHING-----\n"])
def test_one_that_cannot_be_used_is_named_and_never_passed_over(
    made: Path, file: str, content: bytes | None
) -> None:
    path = made / "client" / file
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(errors.UnusableCertificate, match=file) as refused:
        beside_store.found(f"sqlite://{made.parent}/meta.db", beside_store.CLIENT)
    assert "zonekeeper local up" in str(refused.value)
    assert "no bookie was asked" in str(refused.value)
    assert not refused.value.retryable
    assert not refused.value.maybe_applied


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
def test_where_another_user_may_not_look_nobody_takes_it_for_no_certificate(made: Path) -> None:
    address = f"sqlite://{made.parent}/meta.db"
    made.chmod(0o700)
    made.parent.chmod(0o755)
    os.setresuid(65_534, 65_534, 0)
    try:
        with pytest.raises(errors.UnusableCertificate, match="Permission denied"):
            beside_store.found(address, beside_store.CLIENT)
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.parametrize("tls", [True, False])
def test_the_processes_get_their_own_files_and_roles_are_held(tmp_path: Path, tls: bool) -> None:
    folder = Folder(tmp_path)
    shape = Shape(bookies_per_zone=1, autorecovery=1, tls=tls)
    start = LocalStart(folder, folder.make(shape, None), print)
    bookie = start._bookie(BookieId("bk-a-0"), 1 << 30)
    repair = start._autorecovery(BookieId("auto-0"))
    for name, command in (("bk-a-0", bookie), ("auto-0", repair)):
        assert ("--tls-key" in command) is tls
        if tls:
            at = command.index("--tls-key")
            assert command[at + 1] == str(tmp_path / "tls" / name / "tls.key")
    assert (("--access", "on") in itertools.pairwise(bookie)) is tls


def test_a_state_without_certificates_is_that_of_the_release_before(tmp_path: Path) -> None:
    """An older program reads it, too; it refuses one with certificates, and starts nothing."""
    for tls, number in ((False, 2), (True, 3)):
        mark = ProcessMark(pid=1, started_ticks=2, boot="3")
        state = LocalState(shape=Shape(tls=tls)).started(BookieId("auto-0"), mark)
        local_state.write(tmp_path, state)
        assert f'"format": {number}' in (tmp_path / local_state.NAME).read_text()
        assert local_state.read(tmp_path) == state


def test_a_purge_takes_the_certificates_along(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "cluster")
    folder.path.mkdir()
    folder.make(SHAPE, None)
    local_certificates.provide(folder.certificates, NAMES, wall_ms=NOW_MS)
    folder.purge()
    assert not folder.path.exists()


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    """A cluster that was made, and none of whose processes runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "c").mkdir()
    made = LocalCluster(tmp_path / "c")
    await made._initialise(made.folder.make(SHAPE, None))
    return made


async def test_a_start_makes_them_and_a_command_shows_them(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    place = Place(address=cluster.address, cluster_id=None, as_json=False)
    tls = tmp_path / "c" / "tls"
    async with connecting.connected(place, None) as client:
        names = local_certificates.wanted(SHAPE, client.cluster.instance)
        assert not local_certificates.provide(tls, names, wall_ms=reaching.wall_ms())
        assert client.config.tls == beside_store.files_in(tls / "admin")
    named = beside_store.files_in(tls / "auto-0")
    async with connecting.connected(place, named) as client:
        assert client.config.tls == named, "what is named goes first"
    (tls / "admin" / "ca.crt").write_bytes(b"no certificate")
    with pytest.raises(errors.UnusableCertificate, match=f"{tls}/admin/ca.crt: no PEM block"):
        async with connecting.connected(place, None):
            pass


async def test_a_program_shows_that_of_a_client_and_what_it_names_goes_first(
    cluster: LocalCluster,
) -> None:
    tls = cluster.folder.certificates
    async with connect(cluster.address) as client:
        assert client.config.tls == beside_store.files_in(tls / "client")
    async with connect(cluster.address, ClientConfig(zone="a", password=b"p")) as client:
        assert client.config.tls == beside_store.files_in(tls / "client")
        assert (client.config.zone, client.config.password) == ("a", b"p")
    named = beside_store.files_in(tls / "admin")
    async with connect(cluster.address, ClientConfig(tls=named)) as client:
        assert client.config.tls == named
    (tls / "client" / "tls.crt").unlink()
    with pytest.raises(errors.UnusableCertificate, match=r"tls\.crt"):
        async with connect(cluster.address):
            pass
    async with connect(cluster.address, ClientConfig(tls=named)):
        pass


async def test_in_a_cluster_of_the_release_before_nothing_is_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cluster = LocalCluster(tmp_path / "c")
    cluster.folder.path.mkdir()
    before = LocalState(shape=Shape(bookies_per_zone=1, autorecovery=1, tls=False))
    local_state.write(cluster.folder.path, before)
    state = cluster.folder.read()
    assert state is not None
    assert not state.shape.tls
    await cluster._initialise(state)
    assert not cluster.folder.certificates.exists()
    async with connect(cluster.address) as client:
        assert client.config.tls is None
    place = Place(address=cluster.address, cluster_id=None, as_json=False)
    async with connecting.connected(place, None) as client:
        assert client.config.tls is None


def test_a_new_cluster_has_tls_unless_plain_text_is_asked_for() -> None:
    assert Shape().tls
    assert "--tls" in str(Shape())
    assert "--plaintext" in str(Shape(tls=False))


@pytest.mark.parametrize(
    ("tls", "option", "had"), [(True, "--plaintext", "--tls"), (False, "--tls", "--plaintext")]
)
def test_a_cluster_stays_as_it_was_made(
    tmp_path: Path, *, tls: bool, option: str, had: str
) -> None:
    """The other choice is refused, whether there were no certificates or there are some."""
    folder = Folder(tmp_path)
    folder.make(Shape(tls=tls), None)
    before = read_all(tmp_path)
    refused = LocalWorld(tmp_path).call("up", option)
    assert refused.exit_code == exits.REFUSED
    assert f"has --zones 3 --bookies-per-zone 3 --upgrade-domains 3 --autorecovery 2 {had} " in (
        refused.output
    )
    assert read_all(tmp_path) == before


@pytest.mark.parametrize("zookeeper", [False, True])
@pytest.mark.parametrize("tls", [False, True])
def test_the_environment_names_a_certificate_only_where_none_is_found(
    tmp_path: Path, zookeeper: bool, tls: bool
) -> None:
    cluster = LocalCluster(tmp_path / "a cluster")
    cluster.folder.path.mkdir()
    cluster.folder.make(Shape(zookeeper=zookeeper, tls=tls), 2181 if zookeeper else None)
    told = cluster.environment
    assert told.pop("ZONEKEEPER_METADATA") == cluster.address
    files = {
        "ZONEKEEPER_TLS_AUTHORITY": "ca.crt",
        "ZONEKEEPER_TLS_CERTIFICATE": "tls.crt",
        "ZONEKEEPER_TLS_KEY": "tls.key",
    }
    admin = cluster.folder.certificates / "admin"
    wanted = {name: str(admin / file) for name, file in files.items()}
    assert told == (wanted if zookeeper and tls else {})
