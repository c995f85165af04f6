"""The principal of a client, as its certificate names it: for a ledger that is to be its own.

Bookies decide who a caller is, by the certificate that it shows and by their map of foreign names.
A client does not see that map. So a certificate without a URI of ours gives no principal here, and
one with several URIs gives none either: which of them was meant is not guessed.
"""

import re
import ssl
from typing import Final

from zonekeeper.client.base import errors
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity import callers, certificates
from zonekeeper.wire.identity.name_map import NameMap
from zonekeeper.wire.identity.principals import PeerNames

#: The certificate that is shown is the first of a file; those of its issuers follow.
_FIRST: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_SAY: Final = "nothing was done; give the owner in words, such as client/ingest"


def of_files(files: TlsFiles | None, instance: str) -> str:
    """Give ``role/name`` of the one principal in the cluster of this instance.

    Raises ``NoPrincipal``. The file is read for each question, because certificates are rotated.
    """
    if files is None:
        raise errors.NoPrincipal(f"this client has no certificate, so it is no principal; {_SAY}")
    path = files.certificate
    try:
        names = _names_in(tls.read_pem(path, "CERTIFICATE").decode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        raise errors.NoPrincipal(f"the certificate cannot be read: {error}; {_SAY}") from error
    caller = callers.caller_of(names, instance, NameMap())
    if not caller.principals:
        raise errors.NoPrincipal(f"{path}: {caller.why_nobody}; {_SAY}")
    if len(caller.principals) > 1:
        found = ", ".join(map(str, caller.principals))
        raise errors.NoPrincipal(f"{path} names several principals ({found}); {_SAY}")
    return str(caller.principals[0])


def _names_in(text: str) -> PeerNames:
    found = _FIRST.search(text)
    if found is None:
        raise ValueError("it has no whole certificate")
    return certificates.names_in(ssl.PEM_cert_to_DER_cert(found.group()))
