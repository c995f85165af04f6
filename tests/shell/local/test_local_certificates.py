"""A local cluster's certificates are of one authority whose key nobody has, and are kept."""

import itertools
import shutil
import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

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
from zonekeeper.shell.reaching import beside_store, connecting, reaching
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
    }
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


def test_a_command_finds_the_certificate_of_admin_beside_the_store(made: Path) -> None:
    found = beside_store.found(f"sqlite://{made.parent}/meta.db")
    assert found == beside_store.files_in(made / "admin")
    assert beside_store.found(f"sqlite://{made}/meta.db") is None
    assert beside_store.found("zk://127.0.0.1:2181/ledgers") is None


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


async def test_a_start_makes_them_and_a_command_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "c").mkdir()
    cluster = LocalCluster(tmp_path / "c")
    await cluster._initialise(cluster.folder.make(SHAPE, None))
    place = Place(address=cluster.address, cluster_id=None, as_json=False)
    async with connecting.connected(place, None) as client:
        names = local_certificates.wanted(SHAPE, client.cluster.instance)
        now_ms = reaching.wall_ms()
        assert not local_certificates.provide(tmp_path / "c" / "tls", names, wall_ms=now_ms)
    authority = tmp_path / "c" / "tls" / "admin" / "ca.crt"
    authority.write_bytes(b"no certificate")
    with pytest.raises(ValueError, match=f"{authority}: no PEM block"):
        async with connecting.connected(place, None):
            pass
