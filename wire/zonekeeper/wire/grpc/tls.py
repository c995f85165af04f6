"""TLS in both directions, from files.

Both sides show a certificate, and both must come from the same authority: a client that has none is
not served, and a bookie that has none is not believed. A bookie's certificate names its *bookie id*
(as a DNS name in subjectAltName), and that is what the client checks, not the address: addresses
move, and a certificate of another bookie of the same cluster must not do. gRPC takes a name with a
colon for a host with a port, and compares the host alone: so no such id goes with TLS.

Certificates are rotated by changing the files: each new connection is made with what they are then,
and those that are there go on. Files that cannot be used change nothing.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import grpc

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.settings import GivenSettings, Setting

Made = TypeVar("Made")

_PEM_BYTES_MAX: Final = 1 << 20

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where one side's PEM files are."""

    authority: Path
    certificate: Path
    key: Path


#: What a client is told; together they are ``TlsFiles``.
CLIENT_SETTINGS: Final = (
    Setting(
        name="tls-authority",
        shown_as="FILE",
        help="Whose certificates to believe, as PEM; without it nothing is encrypted.",
    ),
    Setting(name="tls-certificate", shown_as="FILE", help="What to show to bookies, as PEM."),
    Setting(name="tls-key", shown_as="FILE", help="The private key of --tls-certificate."),
)
#: What a bookie is told.
SERVER_SETTINGS: Final = (
    Setting(
        name="tls-authority",
        shown_as="FILE",
        help="PEM of the authority whose clients are served. With the next two: TLS on the port "
        "of --listen, and nobody is served without a certificate.",
    ),
    Setting(name="tls-certificate", shown_as="FILE", help="PEM of the bookie's certificate."),
    Setting(name="tls-key", shown_as="FILE", help="PEM of the bookie's private key."),
)


def files_given(given: GivenSettings) -> TlsFiles | None:
    """Give the files, or None where none is given; raises ``BadSettingError`` for some of them."""
    names = [setting.name for setting in CLIENT_SETTINGS]
    why = "the authority, the certificate and the key make TLS only together"
    if not given.together(names, why):
        return None
    authority, certificate, key = (given.read(name, Path) for name in names)
    return TlsFiles(authority=authority, certificate=certificate, key=key)


def check_id(bookie_id: BookieId) -> None:
    """Raise ValueError for a bookie that no certificate can tell from others."""
    if ":" in bookie_id:
        raise ValueError(
            f"{bookie_id!r} cannot be a bookie's id with TLS: its certificate must name it, and "
            "what stands behind a colon would not be compared; use an id without colons"
        )


class ClientCredentials:
    """What a client shows, and whom it believes: for each new channel, as the files are then."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises OSError or ValueError for files that are not what they should be."""
        self._kept = _Kept(files, _channel_credentials)

    def current(self) -> grpc.ChannelCredentials:
        """Give them for a new channel."""
        self._kept.renew()
        return self._kept.made


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Give what a bookie shows, and whose clients it serves, as the files are at each connection.

    Raises OSError or ValueError for files that are not what they should be.
    """
    kept = _Kept(files, _server_configuration)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        return kept.made if kept.renew() else None

    return grpc.dynamic_ssl_server_credentials(
        kept.made,
        renewed,  # type: ignore[arg-type] # None is "no change", as gRPC's own text says
        require_client_authentication=True,
    )


class _Kept(Generic[Made]):
    """What is made of files, and made anew once they have changed."""

    def __init__(self, files: TlsFiles, make: Callable[[TlsFiles], Made]) -> None:
        self._files = files
        self._make = make
        self._state = _state(files)
        self.made = make(files)
        self._trouble = ""

    def renew(self) -> bool:
        """Look at the files again; say whether they were others. Any thread may.

        Where they cannot be used now, such as while they are being changed, it stays as it was.
        """
        try:
            state = _state(self._files)  # before they are read: what changes then is seen later
            if state == self._state:
                return False
            self.made = self._make(self._files)
        except (OSError, ValueError) as error:
            if str(error) != self._trouble:
                _logger.warning("TLS goes on with what was read before: %s", error)
            self._trouble = str(error)
            return False
        self._state = state
        return True


def _state(files: TlsFiles) -> tuple[tuple[int, int, int], ...]:
    """Give what is another one when any of the files is."""
    found = [path.stat() for path in (files.authority, files.certificate, files.key)]
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)


def _channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=_read(files.authority, "CERTIFICATE"),
        private_key=_read(files.key, "PRIVATE KEY"),
        certificate_chain=_read(files.certificate, "CERTIFICATE"),
    )


def _server_configuration(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(_read(files.key, "PRIVATE KEY"), _read(files.certificate, "CERTIFICATE"))],
        root_certificates=_read(files.authority, "CERTIFICATE"),
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
