"""The certificates of a local cluster's callers, which stand beside the file of its metadata.

A program or a command that names no TLS files looks there, so that nobody needs options on a local
cluster. A program finds the certificate of the role ``client``, a command that of ``admin``. Only a
store that is a file has such a place. Files that are named go first.

Certificates that are there and cannot be used are an error. They are never passed over: bookies
that have certificates answer nobody who shows none.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.stores import uri
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.signing import folders

#: The folder of certificates, beside the store's file, and those in it that callers show.
FOLDER: Final = "tls"
ADMIN: Final = "admin"
CLIENT: Final = "client"


def found(address: str, name: str) -> TlsFiles | None:
    """Give the files of this name beside the store at an address; None: there are none.

    Raises ``UnusableCertificate`` if they are there and cannot be read, or may be there.
    """
    parsed = uri.parse(address)
    if not isinstance(parsed, uri.SqliteAddress):
        return None
    place = parsed.path.parent / FOLDER / name
    files = files_in(place)
    try:
        if not place.is_dir():
            return None
        tls.check_files(files)
    except (OSError, ValueError) as error:
        raise errors.UnusableCertificate(
            f"{place} is for a certificate of this cluster, and cannot be used: {error}; call "
            "`zonekeeper local up` as the user whose cluster it is, or name other TLS files; "
            "no bookie was asked"
        ) from error
    return files


def completed(config: ClientConfig, address: str) -> ClientConfig:
    """Add the certificate of programs to settings that name none, if there is one."""
    return config if config.tls is not None else replace(config, tls=found(address, CLIENT))


def files_in(folder: Path) -> TlsFiles:
    """Name the three files of a folder."""
    return TlsFiles(
        authority=folder / folders.AUTHORITIES,
        certificate=folder / folders.CERTIFICATE,
        key=folder / folders.KEY,
    )
