"""No repr shows a password, or a key that is made of one: a log line or a traceback may hold it."""

import dataclasses
import gc
import traceback
from collections.abc import Iterable

import pytest

from tests.client.lab import Lab, played
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.wire.formats import digests

PASSWORD = b"open sesame"
#: What none may show, as text and as bytes.
SECRETS = ("sesame", repr(bytes(digests.master_key(PASSWORD)))[2:-1])
#: The store in memory holds the metadata as bytes, and a bookie of the lab its own state.
_BEYOND = ("zonekeeper.metadata.stores.", "zonekeeper.bookie.")
#: Where the walk goes: objects of ours, and what holds such objects.
_HOLDERS = (dict, list, tuple, set, frozenset)


#: A line of this test's own source, which a traceback shows.
_CALLS = 'password=b"not sesame"'


def reachable(roots: Iterable[object]) -> list[object]:
    """Give every object of ours, and every container, that is reached from some objects."""
    found, open_ones = dict[int, object](), [*roots]
    while open_ones:
        one = open_ones.pop()
        home = type(one).__module__
        if id(one) in found or isinstance(one, type) or home.startswith(_BEYOND):
            continue
        if home.startswith("zonekeeper.") or isinstance(one, _HOLDERS):
            found[id(one)] = one
            open_ones += gc.get_referents(one)
    return [one for one in found.values() if type(one).__module__.startswith("zonekeeper.")]


@played()
async def test_nothing_that_a_client_reaches_shows_the_password(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create(password=PASSWORD)
        await writer.append_and_wait(b"one")
        reader = await client.open(writer.ledger_id, password=PASSWORD, recover=False)
        metadata = await client.metadata(writer.ledger_id)
        assert metadata.password == PASSWORD
        await writer.tell_confirmed()
        openings = [opening for who in writer.ensemble for opening in lab.door(who).openings]
        assert openings
        seen = reachable([client, writer, reader, metadata, *openings])
        kinds = {type(one).__name__ for one in seen}
        wanted = {"Client", "Writer", "Reader", "LedgerMetadata", "Identity", "Sealer"}
        assert wanted <= kinds, "the walk came there"
        for one in seen:
            for secret in SECRETS:
                assert secret not in repr(one), f"a {type(one).__name__} shows it"
        await writer.close()


@played()
async def test_no_error_shows_the_password(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create(password=PASSWORD, ledger_id=7)
        told: list[BaseException] = []
        for ask in (
            lambda: client.open(7, password=PASSWORD),
            lambda: client.open(7, password=b"not sesame"),
            lambda: client.create(password=PASSWORD, ledger_id=7),
            lambda: client.open(8, password=PASSWORD),
        ):
            try:
                await ask()
            except errors.ClientError as error:
                told.append(error)
        assert len(told) == 4
        for each in told:
            said = "".join(traceback.format_exception(each))
            assert "sesame" not in f"{each!r} {said} {vars(each)}".replace(_CALLS, "")
        await writer.close()


@played()
async def test_a_repr_says_what_a_person_wants_to_know(lab: Lab) -> None:
    async with lab.client("first") as client, lab.client("second") as other:
        assert repr(client) == f"<Client of {client.cluster}: open, 0 writers>"
        writer = await client.create(ledger_id=7)
        await writer.append_and_wait(b"one")
        on = ", ".join(writer.ensemble)
        assert repr(client).endswith("open, 1 writers>")
        assert repr(writer) == f"<Writer of ledger 7: open, appended to 0, confirmed to 0, on {on}>"
        reader = await client.open(7, recover=False)
        assert repr(reader) == (
            f"<Reader of ledger 7: OPEN, confirmed to {reader.last_confirmed}, on {on}>"
        )
        tail = reader.follow()
        assert repr(tail) == "<Tail of ledger 7: following, next entry 0>"
        await writer.close()
        assert repr(writer).startswith("<Writer of ledger 7: closed, appended")
        await reader.refresh()
        assert repr(reader).startswith("<Reader of ledger 7: CLOSED, confirmed")
        halted = await client.create(ledger_id=8)
        halted.halt()
        assert "8: halted, and its ledger is not closed, appended to -1" in repr(halted)
        fenced = await client.create(ledger_id=9)
        await fenced.append_and_wait(b"one")
        await other.open(9, recover=True)
        with pytest.raises(errors.Fenced) as told:
            await fenced.append_and_wait(b"two")
        assert f"9: stopped (Fenced: {told.value})" in repr(fenced)
        await client.close()
        assert repr(client).endswith("closed, 0 writers>")


def test_settings_are_shown_and_their_secret_is_not() -> None:
    secret = [each for each in dataclasses.fields(ClientConfig) if not each.repr]
    assert [each.name for each in secret] == ["password"]
    shown = repr(ClientConfig(quiet_ms=7, password=b"sesame"))
    assert "quiet_ms=7" in shown
    assert "password" not in shown
    assert "sesame" not in shown
