"""TLS to ZooKeeper, in place of kazoo's own.

kazoo trusts the system's authorities beside the given one, checks names only on request, and leaves
a socket open when its handshake fails. Here only the given authority is trusted, and names are
always checked. The files are read again for each connection, so that certificates can be renewed
under a running process.
"""

import socket
import ssl
from collections.abc import Callable

from zonekeeper.metadata.stores.uri import Tls


def context(tls: Tls) -> ssl.SSLContext:
    """Read the files; raises ``OSError`` (or ``ssl.SSLError``, a kind of it) if unusable."""
    made = ssl.create_default_context(cafile=tls.ca)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate is not None and tls.key is not None:
        made.load_cert_chain(tls.certificate, tls.key)
    return made


def distrust(error: OSError) -> str | None:
    """Say who refused whose certificate; None: the connection broke for another reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not believed: {error.verify_message}"
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" in reason:
        told = reason.replace("_", " ").lower()
        return f"the server refuses our certificate, or wants one ({told}): see 'tls-cert'"
    return None


def connect(
    tls: Tls,
    distrusted: Callable[[OSError], None],
    address: tuple[str, int],
    *,
    hostname: str,
    timeout: float,
    **_: object,
) -> ssl.SSLSocket:
    """Connect and do the handshake, as kazoo's handler must; blocking, in kazoo's thread.

    ``distrusted`` is called with the error of a handshake that fails.
    """
    trusted = context(tls)
    plain = socket.create_connection(address, timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return trusted.wrap_socket(plain, server_hostname=hostname)
    except BaseException as error:
        plain.close()
        if isinstance(error, OSError):
            distrusted(error)
        raise
