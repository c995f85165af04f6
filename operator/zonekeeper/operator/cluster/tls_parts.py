"""What TLS adds to pods: the volume of a Secret, and the variables that name its files. Pure.

All pods of a zone have one certificate, because one template makes all of them, and a template
cannot name a Secret for each pod. The kubelet replaces the files when the Secret changes, all of
them at once; processes look at them again, so no pod is made anew for another certificate.
"""

from typing import Final

from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes.tls import TlsMode
from zonekeeper.wire.running import seam
from zonekeeper.wire.signing import folders

VOLUME: Final = "tls"
FOLDER: Final = "/tls"
#: The keys of a Secret of the type ``kubernetes.io/tls``, and that of the trusted authorities.
CERTIFICATE: Final = folders.CERTIFICATE
KEY: Final = folders.KEY
AUTHORITIES: Final = folders.AUTHORITIES


def authority_name(cluster: str) -> str:
    """Give the name of the Secret of the operator's authority."""
    return f"{cluster}-ca-tls"


def bookies_name(cluster: str, zone: str) -> str:
    """Give the name of the Secret of a zone's bookies."""
    return f"{cluster}-bookie-{zone}-tls"


def autorecovery_name(cluster: str) -> str:
    """Give the name of the Secret of the autorecovery processes."""
    return f"{cluster}-autorecovery-tls"


def client_name(cluster: str, client: str) -> str:
    """Give the name of a client's Secret."""
    return f"{cluster}-client-{client}-tls"


def of_bookies(desired: Desired, zone: str) -> str | None:
    """Name the Secret that a zone's bookies have; None: they have none."""
    given = desired.tls.secrets
    if desired.tls.mode is TlsMode.PLAINTEXT:
        return None
    return bookies_name(desired.name, zone) if given is None else given.bookies


def of_autorecovery(desired: Desired) -> str | None:
    """Name the Secret that autorecovery processes have; None: they have none."""
    given = desired.tls.secrets
    if desired.tls.mode is TlsMode.PLAINTEXT:
        return None
    return autorecovery_name(desired.name) if given is None else given.autorecovery


def variables(secret: str | None) -> dict[str, str]:
    """Give the environment that names the files."""
    if secret is None:
        return {}
    return {
        seam.TLS_AUTHORITY: f"{FOLDER}/{AUTHORITIES}",
        seam.TLS_CERTIFICATE: f"{FOLDER}/{CERTIFICATE}",
        seam.TLS_KEY: f"{FOLDER}/{KEY}",
    }


def mounts(secret: str | None) -> list[Json]:
    """Give the mount in a container."""
    return [] if secret is None else [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}]


def volumes(secret: str | None) -> Json:
    """Give the field of a pod with its volumes, if there is one."""
    if secret is None:
        return {}
    return {"volumes": [{"name": VOLUME, "secret": {"secretName": secret}}]}
