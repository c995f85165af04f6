"""What the caller of ``create`` wants, checked before anything is done."""

import dataclasses
from collections.abc import Mapping
from typing import Final, Literal

from zonekeeper.client.base import arguments
from zonekeeper.client.bookies import own_principal
from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import OWNER_KEY
from zonekeeper.metadata.ledgers import presences
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity import principals

#: The keys of custom metadata that are not an application's, and what they say.
_TAKEN: Final = {
    placement_stamp.KEY: "how entries are placed",
    presences.KEY: "which process writes the ledger",
    OWNER_KEY: "whose the ledger is (give it as owner)",
}


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerWish:
    """What the caller of ``create`` wants."""

    password: bytes = dataclasses.field(repr=False)
    quorums: Quorums | None
    digest: Digest | None
    custom: Mapping[str, bytes] | None
    ledger_id: int | None
    deferred_sync: bool
    #: True: the client's own principal.
    owner: str | Literal[True] | None = None

    def checked(self) -> LedgerId | None:
        """Check every argument, and give the id, if one is wanted."""
        arguments.check_password(self.password)
        arguments.check_quorums(self.quorums)
        arguments.check_digest(self.digest)
        arguments.check_custom(self.custom)
        arguments.check_flag("deferred_sync", self.deferred_sync)
        if self.owner is not None and self.owner is not True:
            arguments.check_kind("owner", self.owner, str)
            principals.principal_of(self.owner)
        number = None if self.ledger_id is None else arguments.ledger_id(self.ledger_id)
        for key, says in _TAKEN.items():
            if key in (self.custom or {}):
                raise ValueError(f"the custom key {key} is taken: it says {says}")
        return number

    def owner_in(self, instance: str, files: TlsFiles | None) -> str | None:
        """Give the owner; ``files`` has the certificate of the client. Raises ``NoPrincipal``."""
        return own_principal.of_files(files, instance) if self.owner is True else self.owner

    @property
    def own_digest(self) -> Digest | None:
        """The digest of an owned ledger: none that bookies can make, if it has a password."""
        return Digest.HMAC if self.owner is not None and self.password else None
