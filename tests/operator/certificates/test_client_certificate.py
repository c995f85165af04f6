"""``client-cert``: an application gets a certificate from the Secret of the authority alone."""

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.operator.certificates import handshakes
from tests.operator.certificates.handshakes import AUTHORITY, secret
from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.certificates import client_certificate
from zonekeeper.operator.certificates.client_certificate import (
    BadClientNameError,
    NoAuthorityError,
    WantedCertificate,
)
from zonekeeper.operator.commands import commands
from zonekeeper.operator.kubernetes.api import SECRETS, ObjectKind
from zonekeeper.placement.base import units
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.signing import folders, pem

WANTED = WantedCertificate(namespace=SPACE, cluster=NAME, name="billing")


async def test_a_bookie_takes_what_it_issues_and_it_reads_one_secret(tmp_path: Path) -> None:
    world, calls = World(tls={"mode": "Operator"}), list[tuple[str, str]]()
    await world.settle()
    world.kubernetes.disturb = lambda verb, kind: calls.append((verb, kind.name))

    files = await client_certificate.issued(world.kubernetes, WANTED, wall_ms=world.wall_ms)

    assert calls == [("get", "Secret")]
    instance = (await world.get())["status"]["instance"]
    uris, dns = pem.names(files.certificate)
    assert uris == {f"zonekeeper://{instance}/client/billing"}
    assert not dns
    assert files.not_after_ms == world.wall_ms + 90 * units.DAY_MS
    await world.kubernetes.create(SECRETS, client_certificate.secret(files, WANTED, "app"))
    bookie = secret(world.kubernetes, handshakes.bookies("a"))
    made = tmp_path / "made"
    made.mkdir()
    handshakes.shake(bookie, secret(world.kubernetes, "app"), "log-a-0", made)

    written = folders.write(files, tmp_path / "tls")
    assert [path.name for path in written] == ["ca.crt", "tls.crt", "tls.key"]
    assert stat.S_IMODE((tmp_path / "tls" / "tls.key").stat().st_mode) == 0o600
    assert sorted(path.name for path in (tmp_path / "tls").iterdir()) == [
        "ca.crt",
        "tls.crt",
        "tls.key",
    ]
    tls.ClientCredentials(
        TlsFiles(authority=written[0], certificate=written[1], key=written[2])
    ).current()
    folders.write(files, tmp_path / "tls")  # again, over those of before
    assert "PRIVATE" not in repr(files)


async def test_the_role_that_is_asked_for_is_named() -> None:
    world = World(tls={"mode": "Operator"})
    await world.settle()
    wanted = WantedCertificate(namespace=SPACE, cluster=NAME, name="ann", role=Role.ADMIN)
    files = await client_certificate.issued(world.kubernetes, wanted, wall_ms=world.wall_ms)
    assert all("/admin/ann" in uri for uri in pem.names(files.certificate)[0])


async def test_it_ends_with_its_authority() -> None:
    world = World(tls={"mode": "Operator", "authorityLifetime": "2d"})
    await world.settle()
    files = await client_certificate.issued(world.kubernetes, WANTED, wall_ms=world.wall_ms)
    ends = pem.seen(files.authorities)
    assert ends is not None
    assert files.not_after_ms == ends.not_after_ms


@pytest.mark.parametrize("name", ["", "-x", "a/b", "a b", "zonekeeper://x", "a" * 300])
async def test_a_name_that_no_principal_has_is_refused(name: str) -> None:
    wanted = WantedCertificate(namespace=SPACE, cluster=NAME, name=name)
    with pytest.raises(BadClientNameError, match="choose another name"):
        await client_certificate.issued(World().kubernetes, wanted, wall_ms=0)


async def test_a_cluster_without_an_authority_is_told() -> None:
    world = World()
    with pytest.raises(NoAuthorityError, match=r"no Secret log-ca-tls .* spec\.tls\.mode is Op"):
        await client_certificate.issued(world.kubernetes, WANTED, wall_ms=0)


async def test_an_authority_that_cannot_sign_is_told() -> None:
    world = World(tls={"mode": "Operator"})
    await world.settle()
    item = secret(world.kubernetes, AUTHORITY)
    item["data"]["tls.crt"] = ""
    world.kubernetes.put(SECRETS, item)
    with pytest.raises(NoAuthorityError, match="no authority that signs now"):
        await client_certificate.issued(world.kubernetes, WANTED, wall_ms=world.wall_ms)


@pytest.mark.parametrize("where", [[], ["--to", "x", "--secret", "y"]])
def test_one_place_must_be_named(where: list[str]) -> None:
    words = ["client-cert", "billing", "--cluster", NAME, "-n", SPACE, *where]
    found = CliRunner().invoke(commands, words)
    assert found.exit_code == 2
    assert "give either --to FOLDER or --secret NAME" in found.output


def test_the_kind_of_its_secret_is_that_of_tls() -> None:
    files = folders.IssuedFiles(
        certificate=b"c", key=Secret(b"k"), authorities=b"a", not_after_ms=0
    )
    made = client_certificate.secret(files, WANTED, "app")
    assert made["type"] == "kubernetes.io/tls"
    assert isinstance(SECRETS, ObjectKind)
