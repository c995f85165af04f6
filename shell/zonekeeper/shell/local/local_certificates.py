"""The certificates of a local cluster: an authority that is thrown away, and what it has signed.

::

    tls/<process>/          ca.crt, tls.crt, tls.key of a bookie or an autorecovery process
    tls/admin/              those of the commands of the person whose cluster it is
    tls/client/             those of that person's programs

The authority's key is never written, so nobody signs another certificate later. If one of the
certificates is missing, damaged, near its end or of another cluster, all are made anew under a new
authority; processes read their files again at each connection.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from zonekeeper.client.base import beside_store
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.shell.local import local_shape
from zonekeeper.shell.local.local_shape import Shape
from zonekeeper.wire.identity.principals import Role, uri_of
from zonekeeper.wire.signing import folders, pem
from zonekeeper.wire.signing.folders import IssuedFiles
from zonekeeper.wire.signing.values import NamesToSign, Validity

LIFETIME_MS: Final = 365 * units.DAY_MS
#: Certificates with less than this left are made anew at the next start.
LEFT_MS: Final = 30 * units.DAY_MS
#: Clocks that are set back a little must not refuse what was just made.
_BEFORE_MS: Final = units.DAY_MS
_BYTES_MAX: Final = 1 << 20


def wanted(shape: Shape, instance: str) -> dict[str, NamesToSign]:
    """Give what each certificate names, by the name of its folder."""
    roles: dict[BookieId, Role] = dict.fromkeys(local_shape.places(shape), Role.BOOKIE)
    roles |= dict.fromkeys(local_shape.autorecovery(shape), Role.AUTORECOVERY)
    roles[BookieId(beside_store.ADMIN)] = Role.ADMIN
    roles[BookieId(beside_store.CLIENT)] = Role.CLIENT
    return {
        name: NamesToSign(
            common_name=name,
            uri=uri_of(instance, role, name),
            dns=(name,) if role is Role.BOOKIE else (),
        )
        for name, role in roles.items()
    }


def provide(folder: Path, names: Mapping[str, NamesToSign], *, wall_ms: int) -> bool:
    """Make all certificates, unless all are there and good; say whether they were made."""
    if _are_good(folder, names, wall_ms + LEFT_MS):
        return False
    validity = Validity(not_before_ms=wall_ms - _BEFORE_MS, not_after_ms=wall_ms + LIFETIME_MS)
    authority, authority_key = pem.made_authority("a local cluster", validity)
    for name, each in names.items():
        certificate, key = pem.issued(each, authority, authority_key, validity)
        files = IssuedFiles(
            certificate=certificate,
            key=key,
            authorities=authority,
            not_after_ms=validity.not_after_ms,
        )
        folders.write(files, folder / name)
    return True


def _are_good(folder: Path, names: Mapping[str, NamesToSign], until_ms: int) -> bool:
    """Did one authority sign all of them, for these names, and do they last so long?"""
    authorities = set[str]()
    for name, each in names.items():
        certificate, key, trusted = (
            _read(folder / name / file)
            for file in (folders.CERTIFICATE, folders.KEY, folders.AUTHORITIES)
        )
        seen = pem.seen(certificate)
        if seen is None or seen.not_after_ms < until_ms or not pem.belongs(key, certificate):
            return False
        if pem.names(certificate) != (frozenset({each.uri}), frozenset(each.dns)):
            return False
        signer = pem.issuer_of(certificate, pem.all_seen(trusted))
        if signer is None:
            return False
        authorities.add(signer)
    return len(authorities) == 1


def _read(path: Path) -> bytes:
    """Read a file; a missing one is empty."""
    try:
        with path.open("rb") as file:
            return file.read(_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError):
        return b""
