"""TLS in both directions, from files.

Both sides show a certificate, and both must come from the same authority: a client that has none is
not served, and a bookie that has none is not believed. A bookie's certificate names its *bookie id*
(as a DNS name in subjectAltName), and that is what the client checks, not the address: addresses
move, and a certificate of another bookie of the same cluster must not do. gRPC takes a name with a
colon for a host with a port, and compares the host alone: so no such id goes with TLS.

The files are read once. Rotation means new credentials, for new channels and servers.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from zonekeeper.placement.ids import BookieId

_PEM_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where one side's PEM files are."""

    authority: Path
    certificate: Path
    key: Path


def check_id(bookie_id: BookieId) -> None:
    """Raise ValueError for a bookie that no certificate can tell from others."""
    if ":" in bookie_id:
        raise ValueError(
            f"{bookie_id!r} cannot be a bookie's id with TLS: its certificate must name it, and "
            "what stands behind a colon would not be compared; use an id without colons"
        )


def client_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    """Read what a client shows, and whom it believes."""
    return grpc.ssl_channel_credentials(
        root_certificates=_read(files.authority, "CERTIFICATE"),
        private_key=_read(files.key, "PRIVATE KEY"),
        certificate_chain=_read(files.certificate, "CERTIFICATE"),
    )


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Read what a bookie shows, and whose clients it serves."""
    return grpc.ssl_server_credentials(
        [(_read(files.key, "PRIVATE KEY"), _read(files.certificate, "CERTIFICATE"))],
        root_certificates=_read(files.authority, "CERTIFICATE"),
        require_client_auth=True,
    )


def _read(path: Path, kind: str) -> bytes:
    """Read a PEM file; gRPC would only fail at the first handshake, without saying which file."""
    with path.open("rb") as file:
        data = file.read(_PEM_BYTES_MAX + 1)
    if len(data) > _PEM_BYTES_MAX:
        raise ValueError(f"{path}: larger than {_PEM_BYTES_MAX} bytes; is it a PEM file?")
    if b"-----BEGIN " not in data or f"{kind}-----".encode() not in data:
        raise ValueError(f"{path}: no PEM block of the kind {kind}; check which file is named")
    return data
