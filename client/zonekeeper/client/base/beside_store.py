"""The certificate of a local cluster's commands, which stands beside the file of its metadata.

A command that is given no TLS files looks there, so that commands on a local cluster need no
options. Only a store that is a file has such a place. Files that are named go first.
"""

from pathlib import Path
from typing import Final

from zonekeeper.metadata.stores import uri
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.signing import folders

#: The folder of certificates, beside the store's file, and the one that commands show.
FOLDER: Final = "tls"
ADMIN: Final = "admin"


def found(address: str) -> TlsFiles | None:
    """Give the files beside the store at an address; None: there are none."""
    parsed = uri.parse(address)
    if not isinstance(parsed, uri.SqliteAddress):
        return None
    place = parsed.path.parent / FOLDER / ADMIN
    return files_in(place) if place.is_dir() else None


def files_in(folder: Path) -> TlsFiles:
    """Name the three files of a folder."""
    return TlsFiles(
        authority=folder / folders.AUTHORITIES,
        certificate=folder / folders.CERTIFICATE,
        key=folder / folders.KEY,
    )
