"""Pages by certificate: who may see the pages of a process, and with which certificates.

The port uses the files of the process's own TLS, as they are at each connection. A peer need not
show a certificate, because probes have none. A certificate that it shows must be of the authority,
or the handshake fails.

A page needs the operation ``LOOK``. It is held as strictly as can be, whatever ``--access`` says:
these pages are by certificate because a person chose so, and no older peer has to go on. Until the
process knows its cluster, it cannot know a principal of one cluster. Then only a principal of any
cluster may look, and the others are told to try again.
"""

import ssl
from collections import Counter
from http import HTTPStatus
from typing import Final

from zonekeeper.placement.base.settings import BadSettingError, GivenSettings, Setting
from zonekeeper.wire.formats.exposition import Family, labelled, single
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import MadeFromFiles, TlsFiles
from zonekeeper.wire.host.access import Access
from zonekeeper.wire.host.name_map_file import NameMapFile
from zonekeeper.wire.identity import certificates
from zonekeeper.wire.identity.callers import Enforcement
from zonekeeper.wire.identity.principals import PeerNames
from zonekeeper.wire.identity.rights import Operation
from zonekeeper.wire.running import seam
from zonekeeper.wire.running.audit_log import AuditLog
from zonekeeper.wire.running.looking import ByCertificate, Page
from zonekeeper.wire.socket import socket_tls
from zonekeeper.wire.socket.page_turns import PageTurns

_NOT_YET: Final = Page(
    "this process does not know its cluster yet, and so not who may see its pages; try again\n",
    HTTPStatus.SERVICE_UNAVAILABLE,
)
#: Every process whose pages may be by certificate has this setting.
HTTP_TLS: Final = Setting(
    name="http-tls",
    variable=seam.HTTP_TLS,
    shown_as="off|on",
    default="off",
    help="on: the port of --http speaks TLS with the three files of TLS; /metrics and /state are "
    "shown to certificates of the roles admin and monitor, and /healthz and /readyz tell every "
    "caller one word. off: whoever reaches the port sees all pages, in plain HTTP.",
)


def files_given(given: GivenSettings, files: TlsFiles | None) -> TlsFiles | None:
    """Give the files for the pages; None: they are plain. ``files``: those of the process's TLS.

    Raises ``BadSettingError``.
    """
    if not given.read(HTTP_TLS.name, _is_on):
        return None
    if files is None:
        raise BadSettingError(
            f"{given.source(HTTP_TLS.name)}: on needs {tls.FLAGS}, because the port shows a "
            "certificate, and knows its callers by theirs"
        )
    return files


def of_files(files: TlsFiles | None, audit: AuditLog) -> "PageRights | None":
    """Give the rights of a process; None: its pages are plain. Raises ``OSError``."""
    if files is None:
        return None
    try:
        return PageRights(files, audit)
    except (OSError, ValueError) as error:
        raise OSError(f"{tls.FLAGS}: {error}") from error


class PageRights:
    """The rights to the pages of one process."""

    def __init__(self, files: TlsFiles, audit: AuditLog) -> None:
        """Raises OSError or ValueError for unusable files."""
        self._kept = MadeFromFiles(files, _serving)
        self._audit = audit
        self._access = self._held("", None)
        self._is_known = False
        self._failed = 0

    def joined(self, instance: str, names: NameMapFile | None = None) -> None:
        """Take note of the process's cluster, and of the map of foreign names."""
        counts = self._access.figures.counts
        self._access = self._held(instance, names)
        self._access.figures.counts += counts
        self._is_known = True

    def by_certificate(self) -> ByCertificate:
        """Give what the port needs."""
        return ByCertificate(
            turn=PageTurns().turn,
            context=self._context,
            may_look=self._may_look,
            refused=self._refused,
            failed=self._note_failed,
        )

    def families(self) -> list[Family]:
        """Give the metrics."""
        by_role = Counter[str]()
        for (_operation, role, _outcome), count in self._access.figures.counts.items():
            by_role[role] += count
        return [
            labelled(
                "zonekeeper_pages_refusals_total",
                "role",
                dict(by_role),
                "Requests for pages that no role of the caller allows, by its role.",
            ),
            single(
                "zonekeeper_pages_handshakes_failed_total",
                self._failed,
                "Connections to the pages that ended in TLS's handshake.",
            ),
        ]

    def _held(self, instance: str, names: NameMapFile | None) -> Access:
        return Access(Enforcement.ON, instance=instance, names=names, audit=self._audit)

    def _context(self) -> ssl.SSLContext:
        self._kept.renew()
        return self._kept.made

    def _may_look(self, certificate: bytes | None) -> bool:
        self._access.look()
        _caller, free = self._access.known(_names_in(certificate))
        return bool(free & Operation.LOOK.bit)

    def _refused(self, certificate: bytes | None, peer: str) -> Page:
        if certificate is not None and not self._is_known:
            return _NOT_YET
        refusal = self._access.guard(_names_in(certificate), peer).refusal(Operation.LOOK)
        return Page(f"{refusal}\n", HTTPStatus.FORBIDDEN)

    def _note_failed(self) -> None:
        self._failed += 1


def _is_on(text: str) -> bool:
    if text not in ("off", "on"):
        raise ValueError(f"{text!r}: must be off or on")
    return text == "on"


def _names_in(certificate: bytes | None) -> PeerNames | None:
    return None if certificate is None else certificates.names_in(certificate)


def _serving(files: TlsFiles) -> ssl.SSLContext:
    context = socket_tls.context_of(ssl.PROTOCOL_TLS_SERVER, files)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
