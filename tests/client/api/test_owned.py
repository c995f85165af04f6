"""The owner that a client writes into a ledger's metadata."""

from pathlib import Path
from typing import Literal

import pytest

from tests.client.lab import INSTANCE, Lab, played
from tests.support.certificates import Authority, of_role
from zonekeeper.client.api.wishes import LedgerWish
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.formats.ledger_metadata import OWNER_KEY
from zonekeeper.placement.base.digests import Digest
from zonekeeper.wire.identity.principals import Role


def wish(
    owner: str | Literal[True] | None,
    *,
    password: bytes = b"secret",
    custom: dict[str, bytes] | None = None,
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
    assert wish(True).own_digest is Digest.HMAC


def test_what_is_no_text_is_no_owner() -> None:
    for owner in (False, 1, b"client/a"):
        with pytest.raises(TypeError, match="owner"):
            wish(owner).checked()  # type: ignore[arg-type] # a caller without types
    wish(True).checked()


@played()
async def test_a_ledger_is_its_writers_own(lab: Lab, tmp_path: Path) -> None:
    files = of_role(Authority(tmp_path / "ca"), Role.CLIENT, instance=INSTANCE)
    config = ClientConfig(tls=files, password=b"secret")
    async with lab.client(config=config) as client:
        writer = await client.create(owner=True)
        stored = await client.metadata(writer.ledger_id)
        assert (stored.owner, stored.digest) == ("client/client-1", Digest.HMAC)
        await writer.append_and_wait(b"one")
        await writer.close()
        other = await client.create(owner="client/other", digest=Digest.CRC32C)
        stored = await client.metadata(other.ledger_id)
        assert (stored.owner, stored.digest) == ("client/other", Digest.CRC32C)
        await other.close()


@played()
async def test_without_a_principal_nothing_is_created(lab: Lab) -> None:
    async with lab.client() as client:
        with pytest.raises(errors.NoPrincipal, match="has no certificate"):
            await client.create(owner=True)
        assert [number async for number in client.ledgers()] == []
        free = await client.create()
        assert (await client.metadata(free.ledger_id)).owner == ""
        await free.close()
