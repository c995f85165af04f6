"""TLS of the socket lane, from the same files as gRPC's, and with the same rules (``grpc.tls``).

Both sides show a certificate of the same authority, and a bookie's names its id. Each connection
uses the files as they are when it is made.
"""

import ssl

from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import MadeFromFiles, TlsFiles


class SocketTls:
    """One side's certificate and authority, as the files are at each connection."""

    def __init__(self, files: TlsFiles, *, serving: bool) -> None:
        """Raises OSError or ValueError for unusable files."""
        self._kept = MadeFromFiles(files, _serving if serving else _asking)

    def current(self) -> ssl.SSLContext:
        """Give what a new connection uses."""
        self._kept.renew()
        return self._kept.made


def _serving(files: TlsFiles) -> ssl.SSLContext:
    return context_of(ssl.PROTOCOL_TLS_SERVER, files)


def _asking(files: TlsFiles) -> ssl.SSLContext:
    return context_of(ssl.PROTOCOL_TLS_CLIENT, files)


def context_of(side: int, files: TlsFiles) -> ssl.SSLContext:
    """Give what one side uses; raises OSError or ValueError for unusable files."""
    authority = tls.read_pem(files.authority, "CERTIFICATE")
    tls.read_pem(files.certificate, "CERTIFICATE")
    tls.read_pem(files.key, "PRIVATE KEY")
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.decode("ascii", "replace"))
    context.load_cert_chain(files.certificate, files.key)
    return context
