"""Bad input of certificates, over both transports: each is refused before anything is asked.

A client is *refused* when nothing that it asks reaches the bookie. A bookie is refused when its
client sends it nothing.
"""

import asyncio
import datetime
import socket
import ssl
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.support.certificates import (
    NOT_AFTER,
    NOT_BEFORE,
    Authorities,
    Authority,
    Terms,
    certified,
    of_role,
)
from tests.wire.identity.asking import WitnessBookie
from tests.wire.identity.secured_world import GRPC, SOCKET, WAYS, SecuredBookie, secured
from tests.wire.link.worlds import BOOKIE, PATIENT
from zonekeeper.wire.formats import errors, socket_framing, socket_messages, versions
from zonekeeper.wire.formats.socket_messages import ClientGreeting, ConnectionKind
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity.principals import Role, uri_of

DAY = datetime.timedelta(days=1)
FIVE_MINUTES = datetime.timedelta(minutes=5)
HOUR = datetime.timedelta(hours=1)
CLIENTS_ONLY = Terms(usage=(ExtendedKeyUsageOID.CLIENT_AUTH,))
SERVERS_ONLY = Terms(usage=(ExtendedKeyUsageOID.SERVER_AUTH,))
#: Enough for a handshake on a busy machine; a refusal comes at once.
IMPATIENT = replace(PATIENT, connect_timeout_ms=10_000, call_timeout_ms=10_000)


def made(
    authority: Authority, file: str, *, name: str = BOOKIE, terms: Terms | None = None
) -> TlsFiles:
    """A certificate of the role client, or of a bookie's name, with one thing wrong."""
    uris = (uri_of("any", Role.CLIENT, "c"),)
    pair = authority.sign(file, name=name, hosts=(name,), uris=uris, terms=terms)
    trusted = authority.pair.certificate
    return TlsFiles(authority=trusted, certificate=pair.certificate, key=pair.key)


def timed(begins: datetime.timedelta | None, ends: datetime.timedelta | None) -> Terms:
    """Terms that begin and end so long after now; None: long ago, or far away."""
    now = datetime.datetime.fromtimestamp(time.time_ns() / 1e9, datetime.UTC)
    return Terms(
        valid=(
            NOT_BEFORE if begins is None else now + begins,
            NOT_AFTER if ends is None else now + ends,
        )
    )


async def asked(served: SecuredBookie, way: str, files: TlsFiles | None) -> bool:
    """Is a client with these files served? A refusal says that nothing happened."""
    async with served.linked(way, files, IMPATIENT) as link:
        try:
            return (await link.info()).bookie_id == BOOKIE
        except (errors.ConnectionLost, errors.NotConnected, errors.UnauthorizedAccess):
            return False


async def served_to(way: str, bookie: TlsFiles, client: TlsFiles | None) -> bool:
    """Is this client served by a bookie with these files?"""
    witness = WitnessBookie()
    async with secured(bookie, bookie=witness) as served:
        is_served = await asked(served, way, client)
    assert is_served is bool(witness.reached)
    return is_served


@pytest.fixture
def good(authorities: Authorities) -> TlsFiles:
    return made(authorities.ours, "good")


#: When it begins and ends from now on, and whether it is accepted.
PERIODS = [
    (None, -DAY, False),
    (None, -FIVE_MINUTES, False),
    (FIVE_MINUTES, None, False),
    (DAY, None, False),
    # A clock that is five minutes off: an issuer that leaves so much room is accepted.
    (-FIVE_MINUTES, None, True),
    (None, HOUR, True),
]
NAMES = ["expired", "just-expired", "clock-behind", "not-yet", "clock-ahead", "lasts-an-hour"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("begins", "ends", "is_served"), PERIODS, ids=NAMES)
async def test_a_client_is_served_only_within_its_certificate_s_time(
    begins: datetime.timedelta | None,
    ends: datetime.timedelta | None,
    is_served: bool,
    way: str,
    authorities: Authorities,
    good: TlsFiles,
) -> None:
    client = made(authorities.ours, "timed-client", name="client", terms=timed(begins, ends))
    assert await served_to(way, good, client) is is_served


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("begins", "ends", "is_served"), PERIODS, ids=NAMES)
async def test_a_bookie_is_believed_only_within_its_certificate_s_time(
    begins: datetime.timedelta | None,
    ends: datetime.timedelta | None,
    is_served: bool,
    way: str,
    authorities: Authorities,
    good: TlsFiles,
) -> None:
    bookie = made(authorities.ours, "timed-bookie", terms=timed(begins, ends))
    assert await served_to(way, bookie, good) is is_served


@pytest.mark.parametrize("way", WAYS)
async def test_another_authority_is_trusted_by_neither_side(
    way: str, authorities: Authorities, good: TlsFiles
) -> None:
    theirs = made(authorities.theirs, "theirs")
    stranger = replace(theirs, authority=good.authority)
    assert not await served_to(way, good, stranger)
    assert not await served_to(way, stranger, good)
    assert not await served_to(way, good, theirs)


@pytest.mark.parametrize("way", WAYS)
async def test_a_bookie_of_another_name_is_not_believed_and_a_client_needs_none(
    way: str, authorities: Authorities, good: TlsFiles
) -> None:
    other = made(authorities.ours, "other", name="rack-b-0")
    assert not await served_to(way, other, good)
    assert await served_to(way, good, other)


@pytest.mark.parametrize("way", WAYS)
async def test_a_certificate_that_is_for_clients_alone_makes_no_bookie_and_the_reverse(
    way: str, authorities: Authorities, good: TlsFiles
) -> None:
    """So a stolen certificate of a client cannot stand in for a bookie, whatever name it has."""
    of_clients = made(authorities.ours, "of-clients", terms=CLIENTS_ONLY)
    of_servers = made(authorities.ours, "of-servers", terms=SERVERS_ONLY)
    assert not await served_to(way, of_clients, good)
    assert await served_to(way, good, of_clients)
    assert not await served_to(way, good, of_servers)
    assert await served_to(way, of_servers, good)


@pytest.mark.parametrize("way", WAYS)
async def test_the_right_authority_and_the_wrong_role_are_told_which_role_is_missing(
    way: str, authorities: Authorities, good: TlsFiles
) -> None:
    witness = WitnessBookie()
    async with (
        secured(good, bookie=witness) as served,
        served.linked(way, of_role(authorities.ours, Role.MONITOR)) as link,
    ):
        with pytest.raises(errors.NotPermitted, match="needs the role autorecovery or admin"):
            await link.set_read_only(read_only=True)
        assert not witness.read_only
        assert (await link.info()).bookie_id == BOOKIE, "what it may do goes on, on the same link"


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_without_tls_is_not_served(way: str, good: TlsFiles) -> None:
    assert not await served_to(way, good, None)


#: The first words of a client on each transport; a bookie that has taken its certificate answers.
FIRST_WORDS = {
    GRPC: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    SOCKET: socket_framing.headed(
        socket_messages.build_client_greeting(
            ClientGreeting(bookie=BOOKIE, kind=ConnectionKind.CALLS, speaks=versions.SPOKEN)
        )
    ),
}


def _shaken(port: int, context: ssl.SSLContext, first: bytes) -> str:
    """Shake hands and say the first words; give TLS's version, or "" without an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        try:
            with context.wrap_socket(plain) as peer:
                peer.sendall(first)
                return (peer.version() or "") if peer.recv(1) else ""
        except OSError:
            return ""


def _asking(files: TlsFiles, *, shows: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.authority))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if shows:
        context.load_cert_chain(files.certificate, files.key)
    return context


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_that_shows_no_certificate_is_not_served(way: str, good: TlsFiles) -> None:
    async with secured(good) as served:
        context = _asking(good, shows=False)
        assert await asyncio.to_thread(_shaken, served.ports[way], context, FIRST_WORDS[way]) == ""


@pytest.mark.parametrize("way", WAYS)
async def test_tls_1_1_and_older_are_not_spoken(way: str, good: TlsFiles) -> None:
    async with secured(good) as served:
        old = _asking(good, shows=True)
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
            old.minimum_version = ssl.TLSVersion.TLSv1
        with pytest.warns(DeprecationWarning, match=r"TLSv1_1 is deprecated"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        assert await asyncio.to_thread(_shaken, served.ports[way], old, FIRST_WORDS[way]) == ""
        new = _asking(good, shows=True)
        version = await asyncio.to_thread(_shaken, served.ports[way], new, FIRST_WORDS[way])
        assert version in ("TLSv1.2", "TLSv1.3")


def forged(uri: bytes) -> Terms:
    """Terms of a certificate with one URI, of any bytes, in its subjectAltName."""
    assert len(uri) < 0x7E
    return Terms(alternatives=bytes([0x30, len(uri) + 2, 0x86, len(uri)]) + uri)


FORGED = {
    "nul": b"zonekeeper://any/client/c\0.example",
    "no-text": b"zonekeeper://any/client/c\xff\xfe",
    "line-end": b"zonekeeper://any/client/c\n",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("uri", FORGED.values(), ids=FORGED)
async def test_a_forged_uri_names_nobody(
    uri: bytes, way: str, authorities: Authorities, good: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    client = made(authorities.ours, "forged", terms=forged(uri))
    witness = WitnessBookie()
    async with (
        secured(good, bookie=witness) as served,
        served.linked(way, client, IMPATIENT) as link,
    ):
        with pytest.raises((errors.NotPermitted, errors.NotConnected)):
            await link.info()
    assert not witness.reached
    assert "a bug" not in caplog.text
    right = made(authorities.ours, "right", terms=forged(b"zonekeeper://any/client/c"))
    assert await served_to(way, good, right)


@pytest.mark.parametrize("way", WAYS)
async def test_a_map_gives_a_foreign_certificate_its_role_and_is_read_again(
    way: str, authorities: Authorities, good: TlsFiles, tmp_path: Path
) -> None:
    foreign = certified(authorities.ours, "people.example", f"foreign-{way}")
    names = tmp_path / "names"
    names.write_text("dns people.example monitor people\n")
    async with (
        secured(good, names=names) as served,
        served.linked(way, foreign) as link,
    ):
        with pytest.raises(errors.NotPermitted, match="monitor/people asks for compact"):
            await link.compact(major=False)
        names.write_text("cn people.example admin alice\n")
        served.access.look()
        await link.compact(major=False)
        names.write_text("# the last line is half a lin")
        served.access.look()
        with pytest.raises(errors.NotPermitted, match="a caller without a role"):
            await link.compact(major=False)
        names.write_text("cn people.example adm")
        served.access.look()
        with pytest.raises(errors.NotPermitted):
            await link.compact(major=False)
