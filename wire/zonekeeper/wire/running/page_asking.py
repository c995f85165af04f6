"""What a command uses to ask for pages that are by certificate: three files, and TLS made of them.

It is apart from gRPC's TLS, so that a command that only asks for pages loads no gRPC.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.running import seam
from zonekeeper.wire.running.page_identity import ProcessKind

_VARIABLES: Final = (seam.TLS_AUTHORITY, seam.TLS_CERTIFICATE, seam.TLS_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFiles:
    """The paths of a caller's PEM files."""

    authority: Path
    certificate: Path
    key: Path


def of_environment(environment: Mapping[str, str]) -> PageFiles | None:
    """Give the files that the variables of the TLS options name; None: not all three do."""
    authority, certificate, key = (environment.get(name, "") for name in _VARIABLES)
    if not (authority and certificate and key):
        return None
    return PageFiles(authority=Path(authority), certificate=Path(certificate), key=Path(key))


class PageAsking:
    """TLS of a round of questions, from the files as they are now."""

    def __init__(self, files: PageFiles) -> None:
        """Raises ``OSError`` for unusable files."""
        try:
            self._named, self._unnamed = _context(files), _context(files)
        except (OSError, ValueError) as error:
            whole = f"{files.authority}, {files.certificate}, {files.key}"
            raise OSError(f"the files of TLS cannot be used ({whole}): {error}") from error
        self._unnamed.check_hostname = False

    def of(self, kind: ProcessKind, name: BookieId) -> tuple[ssl.SSLContext, str]:
        """Give the context for the pages of a process, and the name that its certificate must have.

        The certificate must be of the authority, and for servers. That of a bookie must have the
        bookie's id. Autorecovery processes have names of their own and may share one certificate,
        so their name, which is empty here, is not compared.
        """
        if kind is ProcessKind.BOOKIE:
            return self._named, name
        return self._unnamed, ""


def _context(files: PageFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cafile=files.authority)
    context.load_cert_chain(files.certificate, files.key)
    return context
