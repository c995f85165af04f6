"""TLS in both directions, from files.

Both sides show a certificate, and both certificates must come from the same authority. A bookie
serves no client without a certificate, and a client trusts no bookie without one. A bookie's
certificate names its *bookie id* (as a DNS name in subjectAltName). The client checks the id and
not the address, because addresses move, and the certificate of another bookie of the cluster must
not be accepted. gRPC takes a name with a colon for a host with a port, and compares only the host.
So with TLS a bookie's id must not contain a colon.

Certificates are replaced by changing the files. Each new connection uses the files as they are
then, and existing connections go on. Unusable files change nothing.
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
    """The paths of one side's PEM files."""

    authority: Path
    certificate: Path
    key: Path


#: The settings of a client; together they make ``TlsFiles``.
CLIENT_SETTINGS: Final = (
    Setting(
        name="tls-authority",
        shown_as="FILE",
        help="PEM of the authority whose bookies are trusted. Without it nothing is encrypted, "
        "unless a command or a job finds the certificate of a local cluster.",
    ),
    Setting(
        name="tls-certificate", shown_as="FILE", help="PEM of the certificate to show to bookies."
    ),
    Setting(name="tls-key", shown_as="FILE", help="PEM of the private key of --tls-certificate."),
)
#: The settings of a bookie.
SERVER_SETTINGS: Final = (
    Setting(
        name="tls-authority",
        shown_as="FILE",
        help="PEM of the authority whose clients are served. With the next two: TLS on the port "
        "of --listen, and a client without a certificate is not served.",
    ),
    Setting(name="tls-certificate", shown_as="FILE", help="PEM of the bookie's certificate."),
    Setting(name="tls-key", shown_as="FILE", help="PEM of the bookie's private key."),
)


#: The flags of either side, for errors about the files.
FLAGS: Final = ", ".join(f"--{setting.name}" for setting in CLIENT_SETTINGS)


def files_given(given: GivenSettings) -> TlsFiles | None:
    """Give the files, or None if none is given; raises ``BadSettingError`` if some are missing."""
    names = [setting.name for setting in CLIENT_SETTINGS]
    why = "the authority, the certificate and the key make TLS only together"
    if not given.together(names, why):
        return None
    authority, certificate, key = (given.read(name, Path) for name in names)
    return TlsFiles(authority=authority, certificate=certificate, key=key)


def check_id(bookie_id: BookieId) -> None:
    """Raise ValueError for a bookie id that a certificate cannot tell from others."""
    if ":" in bookie_id:
        raise ValueError(
            f"{bookie_id!r} cannot be a bookie's id with TLS: its certificate must name it, and "
            "what stands behind a colon would not be compared; use an id without colons"
        )


class ClientCredentials:
    """A client's certificate and authority: for each new channel, as the files are then."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises OSError or ValueError for unusable files."""
        self._kept = MadeFromFiles(files, _channel_credentials)

    def current(self) -> grpc.ChannelCredentials:
        """Give the credentials for a new channel."""
        self._kept.renew()
        return self._kept.made


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Give a bookie's certificate, and the authority of its clients, as the files are then.

    The files are looked at for each connection. Raises OSError or ValueError for unusable files.
    """
    kept = MadeFromFiles(files, _server_configuration)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        return kept.made if kept.renew() else None

    return grpc.dynamic_ssl_server_credentials(
        kept.made,
        renewed,  # type: ignore[arg-type] # None is "no change", as gRPC's own text says
        require_client_authentication=True,
    )


class MadeFromFiles(Generic[Made]):
    """A value that is made from files, and made again when they have changed."""

    def __init__(self, files: TlsFiles, make: Callable[[TlsFiles], Made]) -> None:
        self._files = files
        self._make = make
        self._state = _state(files)
        self.made = make(files)
        self._trouble = ""

    def renew(self) -> bool:
        """Look at the files again, and say whether they have changed. Any thread may call this.

        If the files are unusable now, for example while they are being changed, the value stays.
        """
        try:
            state = _state(self._files)  # taken before reading: a later change is seen next time
            if state == self._state:
                return False
            made = self._make(self._files)
            if _state(self._files) != state:
                return False  # they were replaced meanwhile: a certificate and another one's key
        except (OSError, ValueError) as error:
            if str(error) != self._trouble:
                _logger.warning("TLS goes on with what was read before: %s", error)
            self._trouble = str(error)
            return False
        self.made = made
        self._state = state
        return True


def _state(files: TlsFiles) -> tuple[tuple[int, int, int], ...]:
    """Give a value that changes when any of the files changes."""
    found = [path.stat() for path in (files.authority, files.certificate, files.key)]
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)


def _channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=read_pem(files.authority, "CERTIFICATE"),
        private_key=read_pem(files.key, "PRIVATE KEY"),
        certificate_chain=read_pem(files.certificate, "CERTIFICATE"),
    )


def _server_configuration(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(read_pem(files.key, "PRIVATE KEY"), read_pem(files.certificate, "CERTIFICATE"))],
        root_certificates=read_pem(files.authority, "CERTIFICATE"),
    )


def check_files(files: TlsFiles) -> None:
    """Raise OSError or ValueError for files that are missing, not readable, or no PEM at all."""
    for path in (files.authority, files.certificate):
        read_pem(path, "CERTIFICATE")
    read_pem(files.key, "PRIVATE KEY")


def read_pem(path: Path, kind: str) -> bytes:
    """Read a PEM file; without this a handshake would fail, and nothing would name the file."""
    with path.open("rb") as file:
        data = file.read(_PEM_BYTES_MAX + 1)
    if len(data) > _PEM_BYTES_MAX:
        raise ValueError(f"{path}: larger than {_PEM_BYTES_MAX} bytes; is it a PEM file?")
    if b"-----BEGIN " not in data or f"{kind}-----".encode() not in data:
        raise ValueError(f"{path}: no PEM block of the kind {kind}; check which file is named")
    return data
