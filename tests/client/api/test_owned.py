"""The owner that a client writes into a ledger's metadata."""

import pytest

from zonekeeper.client.api.wishes import LedgerWish
from zonekeeper.metadata.formats.ledger_metadata import OWNER_KEY
from zonekeeper.placement.base.digests import Digest


def wish(
    owner: str | None, *, password: bytes = b"secret", custom: dict[str, bytes] | None = None
) -> LedgerWish:
    return LedgerWish(password, None, None, custom, None, deferred_sync=False, owner=owner)


@pytest.mark.parametrize("owner", ["", "ingest", "king/a", "client/", "client/a b", "client/a\n"])
def test_an_owner_is_a_principal(owner: str) -> None:
    with pytest.raises(ValueError, match="is no principal"):
        wish(owner).checked()
    wish("client/ingest").checked()
    wish(None).checked()


def test_no_application_writes_an_owner_beside_that() -> None:
    with pytest.raises(ValueError, match="is taken: it says whose the ledger is"):
        wish(None, custom={OWNER_KEY: b"client/a"}).checked()


def test_an_owned_ledger_with_a_password_has_digests_that_no_bookie_can_make() -> None:
    assert wish("client/a").own_digest is Digest.HMAC
    assert wish("client/a", password=b"").own_digest is None
    assert wish(None).own_digest is None
