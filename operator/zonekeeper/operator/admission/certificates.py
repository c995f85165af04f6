"""The webhook's certificate: two files in a folder, as Kubernetes mounts a Secret of type TLS.

The operator makes no certificate for itself. It would have to hand its authority to the API server,
and for that it would need rights over webhooks that nothing else of it needs. The person who
installs the chart names a Secret; cert-manager or the platform keep it fresh.

The folder may be empty at first: the Secret is made later, or never, and the operator works all the
same. Until then every handshake fails, and the API server goes on without the webhook. Kubernetes
replaces the files together when the Secret changes, so they are read again from time to time. A
pair that cannot be used is told in the log, and the one before stays.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
#: The files are looked at again after this time; before there are any, sooner.
AGAIN_S: Final = 60.0
FIRST_AGAIN_S: Final = 2.0
#: An encrypted key fails at once; without a password OpenSSL would ask a terminal for it.
_NO_PASSWORD: Final = ""

_logger = logging.getLogger(__name__)


class ServingCertificate:
    """The certificate that new connections are answered with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[bytes, bytes] | None = None
        self._told = ""
        self.context: Final = _context()

    @property
    def is_there(self) -> bool:
        """Can a handshake succeed?"""
        return self._read is not None

    async def keep_fresh(self) -> None:
        """Read the files again and again."""
        while True:
            await asyncio.to_thread(self.refresh)
            await asyncio.sleep(AGAIN_S if self.is_there else FIRST_AGAIN_S)

    def refresh(self) -> bool:
        """Take over the files if they have changed; were they?"""
        # Kubernetes swaps a link to the folder of both: so they are of one version.
        folder = (self._folder / CERTIFICATE).resolve().parent
        certificate, key = folder / CERTIFICATE, folder / KEY
        try:
            found = certificate.read_bytes(), key.read_bytes()
            if found == self._read:
                return False
            # A pair that does not fit together must not reach the context in use by halves.
            for context in (_context(), self.context):
                context.load_cert_chain(certificate, key, password=_NO_PASSWORD)
        except (OSError, ValueError) as error:
            self._warn(f"the webhook's certificate in {self._folder} cannot be used: {error}")
            return False
        self._read, self._told = found, ""
        _logger.info("the webhook's certificate was read from %s", self._folder)
        return True

    def _warn(self, words: str) -> None:
        """Log it once, not each time that it is so again."""
        if words != self._told:
            _logger.warning("%s", words)
        self._told = words


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
