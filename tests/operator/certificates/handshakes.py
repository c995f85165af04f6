"""Handshakes in memory, with the certificates that stand in Secrets."""

import ssl
from pathlib import Path

from tests.operator.resources import NAME, SPACE
from zonekeeper.operator.certificates import secret_data
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.kubernetes.api import SECRETS, Json
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes

#: The twin has a time of its own; OpenSSL would take the machine's.
NO_CHECK_OF_TIME = ssl.VerifyFlags(0x200000)

AUTHORITY = tls_parts.authority_name(NAME)
AUTORECOVERY = tls_parts.autorecovery_name(NAME)


def secret(kubernetes: MemoryKubernetes, name: str) -> Json:
    found = kubernetes.peek(SECRETS, SPACE, name)
    assert found is not None, name
    return found


def bookies(zone: str) -> str:
    return tls_parts.bookies_name(NAME, zone)


def context(item: Json, folder: Path, *, serving: bool) -> ssl.SSLContext:
    """Give what a process makes of the files of a Secret."""
    for name in (tls_parts.CERTIFICATE, tls_parts.KEY, tls_parts.AUTHORITIES):
        (folder / name).write_bytes(secret_data.value(item, name))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serving else ssl.PROTOCOL_TLS_CLIENT)
    made.verify_mode = ssl.CERT_REQUIRED
    # As later releases of Python have it: an authority must say whose key it is, and so on.
    made.verify_flags |= ssl.VERIFY_X509_STRICT | NO_CHECK_OF_TIME
    made.load_verify_locations(folder / tls_parts.AUTHORITIES)
    made.load_cert_chain(folder / tls_parts.CERTIFICATE, folder / tls_parts.KEY)
    return made


def shake(server: Json, client: Json, name: str, folder: Path) -> None:
    """Let a client check a bookie by its name, and the bookie check the client; raises SSLError."""
    serving = context(server, folder, serving=True)
    asking = context(client, folder, serving=False)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = serving.wrap_bio(to_server, to_client, server_side=True)
    two = asking.wrap_bio(to_client, to_server, server_hostname=name)
    done = set[ssl.SSLObject]()
    for _ in range(10):
        for side in (two, one):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
    assert done == {one, two}
    one.write(b"served")
    assert two.read() == b"served"


def shake_all(kubernetes: MemoryKubernetes, folder: Path, *clients: str) -> None:
    """Let every bookie's Secret and every other one's meet."""
    for zone in "abc":
        for client in (AUTORECOVERY, *clients):
            shake(
                secret(kubernetes, bookies(zone)),
                secret(kubernetes, client),
                f"{NAME}-{zone}-0",
                folder,
            )
