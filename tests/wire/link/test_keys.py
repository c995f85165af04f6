"""A caller proves the key of a ledger with a password, over every transport."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import pytest

from tests.wire.link.reference_bookie import ReferenceBookie
from tests.wire.link.worlds import (
    BOOKIE,
    KEY,
    PATIENT,
    Outcomes,
    World,
    Writer,
    opened,
    played,
    read,
)
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import messages, service
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.contract.service import ListEntriesRequest, TailRequest
from zonekeeper.wire.formats import carriers, digests, errors, proofs
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Flags
from zonekeeper.wire.formats.proofs import ProofAct, Prover, Shown
from zonekeeper.wire.formats.versions import WireVersions
from zonekeeper.wire.host import methods, proving
from zonekeeper.wire.host.proving import ProofSession
from zonekeeper.wire.link.asking import Asking
from zonekeeper.wire.link.stream_link import StreamLink

LEDGER: Final = LedgerId(7)
WRONG_KEY: Final = digests.master_key(b"another password")
FIRST: Final = WireVersions(1, 1)


async def _tail(link: BookieLink, key: MasterKey | None) -> None:
    request = TailRequest(
        ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1 << 20, quiet_ms=1_000, key=key
    )
    async with aclosing(link.tail(request)) as updates:
        await anext(updates)


async def _list(link: BookieLink, key: MasterKey | None) -> None:
    await link.list_entries(
        ListEntriesRequest(ledger_id=LEDGER, first_entry_id=EntryId(0), ranges_max=10, key=key)
    )


async def _read(link: BookieLink, key: MasterKey | None) -> None:
    await link.read(replace(read(7, 0, 0), key=key))


async def _read_lac(link: BookieLink, key: MasterKey | None) -> None:
    await link.read_lac(LEDGER, key)


async def _force(link: BookieLink, key: MasterKey | None) -> None:
    await link.force(LEDGER, key)


Look = Callable[[BookieLink, MasterKey | None], Awaitable[None]]
#: The requests that only look at a ledger.
LOOKS: dict[str, Look] = {
    "read": _read,
    "read_lac": _read_lac,
    "tail": _tail,
    "list_entries": _list,
    "force": _force,
}


async def _fence(link: BookieLink, key: MasterKey) -> None:
    await link.fence(LEDGER, key)


async def _fencing_read(link: BookieLink, key: MasterKey) -> None:
    await link.read(replace(read(7, 0, 0), fence_key=key))


async def _open(link: BookieLink, key: MasterKey) -> None:
    await link.open_fragment(Writer(7, 1).opening(key), Outcomes())


#: The requests that change a ledger.
CHANGES: dict[str, Callable[[BookieLink, MasterKey], Awaitable[None]]] = {
    "fence": _fence,
    "fencing read": _fencing_read,
    "open": _open,
}


async def written(world: World, link: BookieLink) -> None:
    """Let ledger 7 have an entry, at a bookie that wants keys."""
    world.bookie.wants_keys = True
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"mine"))
    await outcomes.all_of(1)
    lane.close()


def test_every_request_for_a_ledger_is_played() -> None:
    of_a_link = {name for name in vars(BookieLink) if not name.startswith("_")}
    of_the_bookie = {"bookie_id", "info", "set_read_only", "compact"}
    vouched = {"end_limbo"}
    assert {*LOOKS, "fence", "open_fragment"} | of_the_bookie | vouched == of_a_link


@pytest.mark.parametrize("name", LOOKS)
@played()
async def test_who_does_not_prove_the_key_sees_nothing(world: World, name: str) -> None:
    owner, stranger = world.link(), world.link()
    await written(world, owner)
    for key in (None, WRONG_KEY, proofs.KEY_WITHOUT_PASSWORD):
        with pytest.raises(errors.UnauthorizedAccess) as caught:
            await LOOKS[name](stranger, key)
        assert (caught.value.retryable, caught.value.maybe_applied) == (False, False)
    await LOOKS[name](stranger, KEY)  # after a wrong one, too


@pytest.mark.parametrize("name", CHANGES)
@played()
async def test_a_wrong_proof_changes_nothing(world: World, name: str) -> None:
    owner, stranger = world.link(), world.link()
    await written(world, owner)
    before = world.disk.ledgers[LEDGER]
    fragments = list(before.fragments)
    for key in (WRONG_KEY, proofs.KEY_WITHOUT_PASSWORD):
        with pytest.raises(errors.UnauthorizedAccess):
            await CHANGES[name](stranger, key)
    assert not before.fenced
    assert before.fragments == fragments
    writer, lane, outcomes = await opened(owner, 7, first=1)
    lane.append(writer.frame(b"still mine"))
    await outcomes.all_of(1)
    assert outcomes.acked_order == [0]
    await CHANGES[name](stranger, KEY)


@played()
async def test_a_ledger_without_a_password_needs_no_key(world: World) -> None:
    world.disk.keys[LEDGER] = proofs.KEY_WITHOUT_PASSWORD
    world.bookie.wants_keys = True
    link = world.link()
    writer = Writer(7)
    outcomes = Outcomes()
    opening = writer.opening(proofs.KEY_WITHOUT_PASSWORD)
    lane = await link.open_fragment(opening, outcomes)
    lane.append(writer.frame(b"everybody's"))
    await outcomes.all_of(1)
    for look in LOOKS.values():
        for key in (None, proofs.KEY_WITHOUT_PASSWORD):
            await look(world.link(), key)
    await link.fence(LEDGER, proofs.KEY_WITHOUT_PASSWORD)


@played()
async def test_the_first_proof_of_a_ledger_that_is_not_known_is_compared_with_metadata(
    world: World,
) -> None:
    stranger, owner = world.link(), world.link()
    world.disk.keys[LEDGER] = KEY
    for change in CHANGES.values():
        with pytest.raises(errors.UnauthorizedAccess):
            await change(stranger, WRONG_KEY)
    assert LEDGER not in world.disk.ledgers
    await owner.open_fragment(Writer(7).opening(), Outcomes())
    assert world.disk.ledgers[LEDGER].key == KEY
    assert [each.master_key for each in world.disk.ledgers[LEDGER].fragments] == [KEY]


@played()
async def test_the_key_never_travels(world: World) -> None:
    shown: list[Shown | None] = []

    class Looks(ReferenceBookie):
        async def read(self, request: service.ReadRequest) -> service.ReadReply:
            shown.extend({request.key, request.fence_key} - {None})
            return await super().read(request)

        async def fence(
            self, ledger_id: LedgerId, master_key: Shown, create_token: int = 0
        ) -> service.LacEvidence:
            shown.append(master_key)
            return await super().fence(ledger_id, master_key, create_token)

        def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
            shown.extend(item.shown for item in items if isinstance(item, carriers.Open))
            super().append(items, replies)

    await world.crash()
    world.bookie = Looks(BOOKIE, world.disk)
    await world.start()
    link = world.link()
    await written(world, link)
    for look in LOOKS.values():
        await look(link, KEY)
    for change in CHANGES.values():
        await change(link, KEY)
    assert len(shown) >= 5
    assert all(isinstance(each, proofs.ShownProof) for each in shown)
    assert [item.versions for item in world.host.pipes] == [{carriers.VERSION + 1}]


# ── proofs of elsewhere ──


async def prover_of(link: StreamLink) -> Prover:
    """Give what proves on a link's present Read stream."""
    prover = (await link._asking.current()).prover
    assert prover is not None
    return prover


async def lac(link: StreamLink, proof: Shown) -> None:
    """Read a ledger's LAC with this proof, as it is."""
    asked = messages.LedgerCall(ledger_id=LEDGER, key=proof)
    await link._transport.call(methods.READ_LAC, asked, 60_000)


@played()
async def test_a_proof_that_was_overheard_is_of_no_use(world: World) -> None:
    owner, thief = world.link(), world.link()
    await written(world, owner)
    proof = (await prover_of(owner)).of_call(ProofAct.READ_LAC, KEY, LEDGER)
    await lac(owner, proof)
    for link in (owner, thief):
        with pytest.raises(errors.NotProven):
            await lac(link, proof)
    (await thief._asking.current()).prover = await prover_of(owner)
    with pytest.raises(errors.UnauthorizedAccess):  # its stream has another nonce
        await thief.read(replace(read(7, 0, 0), key=KEY))


@played()
async def test_a_proof_for_one_ledger_or_act_is_none_for_another(world: World) -> None:
    link = world.link()
    await written(world, link)
    prover = await prover_of(link)
    for proof in (
        prover.of_call(ProofAct.READ_LAC, KEY, LedgerId(8)),
        prover.of_call(ProofAct.FORCE, KEY, LEDGER),
        prover.of_call(ProofAct.READ_LAC, WRONG_KEY, LEDGER),
    ):
        with pytest.raises(errors.UnauthorizedAccess):
            await lac(link, proof)
    await lac(link, prover.of_call(ProofAct.READ_LAC, KEY, LEDGER))


@played()
async def test_a_bookie_cannot_pass_on_the_nonce_of_another_as_its_own(world: World) -> None:
    """A client that meant another bookie has answered this bookie's nonce."""
    link = world.link()
    await written(world, link)
    asking = await link._asking.current()
    nonce = (await prover_of(link)).of_call(ProofAct.READ_LAC, KEY, LEDGER).nonce
    asking.prover = Prover(BookieId("rack-b-0"), nonce)
    for look in (_read, _read_lac):
        with pytest.raises(errors.UnauthorizedAccess):
            await look(link, KEY)


@played()
async def test_a_restart_and_a_reconnect_ask_for_another_nonce(world: World) -> None:
    link = world.link()
    await written(world, link)
    before = await prover_of(link)
    old = before.of_call(ProofAct.READ_LAC, KEY, LEDGER)
    await world.restart()
    world.bookie.wants_keys = True
    while True:
        try:
            await link.read_lac(LEDGER, KEY)
            break
        except (errors.NotConnected, errors.ConnectionLost):
            await asyncio.sleep(0.01)
    after = await prover_of(link)
    assert after.of_call(ProofAct.READ_LAC, KEY, LEDGER).nonce != old.nonce
    with pytest.raises(errors.NotProven):
        await lac(link, old)


#: The requests that travel beside the streams.
CALLS: dict[str, Look] = {each: LOOKS[each] for each in LOOKS if each != "read"}


@pytest.mark.parametrize("name", [*CALLS, "fence"])
@played()
async def test_a_call_is_proven_anew_if_its_stream_has_ended_unnoticed(
    world: World, name: str
) -> None:
    link = world.link()
    await written(world, link)
    await prover_of(link)
    world.host._proofs._reading.clear()
    await (CALLS | CHANGES)[name](link, KEY)
    for look in LOOKS.values():
        await look(link, KEY)


# ── guesses ──


async def over(asking: Asking) -> None:
    """Wait until a Read stream has ended."""
    while True:
        if not asking.alive:
            return
        await asyncio.sleep(0.01)


@played()
async def test_a_stream_ends_after_too_many_wrong_proofs_and_the_next_one_works(
    world: World,
) -> None:
    link, other = world.link(), world.link()
    await written(world, other)
    first = await link._asking.current()
    for _ in range(proving.WRONG_MAX - 1):
        with pytest.raises(errors.UnauthorizedAccess):
            await link.read(replace(read(7, 0, 0), key=WRONG_KEY))
    with pytest.raises((errors.UnauthorizedAccess, errors.ConnectionLost)):  # it may not leave
        await link.read(replace(read(7, 0, 0), key=WRONG_KEY))
    await over(first)
    await other.read(replace(read(7, 0, 0), key=KEY))  # no other connection is touched
    while True:
        try:
            await link.read(replace(read(7, 0, 0), key=KEY))
            break
        except (errors.NotConnected, errors.ConnectionLost):
            await asyncio.sleep(0.01)
    assert await link._asking.current() is not first


@played()
async def test_wrong_calls_end_the_stream_that_they_name(world: World) -> None:
    link = world.link()
    await written(world, link)
    first = await link._asking.current()
    for _ in range(proving.WRONG_MAX):
        with pytest.raises(errors.UnauthorizedAccess):
            await link.fence(LEDGER, WRONG_KEY)
    await over(first)
    assert not world.disk.ledgers[LEDGER].fenced


@pytest.mark.parametrize("name", [*CALLS, "fence"])
@played()
async def test_who_has_guessed_nothing_is_not_told_that_the_key_is_wrong(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call with the right key comes after the last guess, before the stream has ended."""

    async def not_yet(_: ProofSession) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(ProofSession, "until_guessing", not_yet)
    link = world.link()
    await written(world, link)
    first = await link._asking.current()
    for session in world.host._proofs._reading.values():
        session.guesses.set()
    await (CALLS | CHANGES)[name](link, KEY)
    assert await link._asking.current() is not first


@played()
async def test_one_carrier_full_of_guesses_is_not_looked_through(world: World) -> None:
    looked: list[int] = []

    class Judges(ReferenceBookie):
        """Judges an opening at once, as a bookie does that knows the key."""

        def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
            for item in items:
                looked.append(item.number)
                replies.refused(item.number, errors.UnauthorizedAccess("the wrong key"))

    await world.crash()
    world.bookie = Judges(BOOKIE, world.disk)
    await world.start()
    link, wrong = world.link(), Writer(7).opening(WRONG_KEY)
    asked = [
        asyncio.ensure_future(link.open_fragment(wrong, Outcomes()))
        for _ in range(20 * proving.WRONG_MAX)
    ]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert looked == [*range(proving.WRONG_MAX)]
    assert {type(each) for each in outcomes} <= {
        errors.UnauthorizedAccess,
        errors.ConnectionLost,
        errors.NotConnected,
    }


@pytest.mark.parametrize("fences", [False, True])
@played()
async def test_one_carrier_full_of_guessing_reads_is_not_looked_through(
    world: World, fences: bool
) -> None:
    looked = 0

    class Judges(ReferenceBookie):
        async def read(self, request: service.ReadRequest) -> service.ReadReply:
            nonlocal looked
            looked += 1
            raise errors.UnauthorizedAccess("the wrong key")

    await world.crash()
    world.bookie = Judges(BOOKIE, world.disk)
    await world.start()
    link = world.link()
    plain = read(7, 0, 0, bytes_max=1)
    wrong = replace(plain, fence_key=WRONG_KEY) if fences else replace(plain, key=WRONG_KEY)
    asked = [asyncio.ensure_future(link.read(wrong)) for _ in range(20 * proving.WRONG_MAX)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert looked == proving.WRONG_MAX
    assert {type(each) for each in outcomes} <= {
        errors.UnauthorizedAccess,
        errors.ConnectionLost,
        errors.NotConnected,
    }


# ── releases that do not prove ──


@played()
async def test_an_older_client_writes_and_fences_with_the_key_itself(world: World) -> None:
    older = world.link(replace(PATIENT, speaks=FIRST))
    await written(world, older)
    for name, look in LOOKS.items():
        with pytest.raises(errors.UnauthorizedAccess):
            await look(older, KEY)
        world.bookie.wants_keys = False
        await look(older, KEY)
        world.bookie.wants_keys = True
        assert name
    with pytest.raises(errors.UnauthorizedAccess):
        await older.fence(LEDGER, WRONG_KEY)
    for change in CHANGES.values():
        await change(older, KEY)
    recovery, lane, outcomes = await opened(older, 7, first=1)
    lane.append(recovery.frame(b"again", flags=Flags.RECOVERY))
    await outcomes.all_of(1)


@played()
async def test_an_older_bookie_is_shown_the_key_only_where_it_needs_it(world: World) -> None:
    plain: list[Shown | None] = []

    class Older(ReferenceBookie):
        async def read(self, request: service.ReadRequest) -> service.ReadReply:
            plain.append(request.key)
            return await super().read(request)

        async def read_lac(
            self, ledger_id: LedgerId, key: Shown | None = None
        ) -> service.LacEvidence:
            plain.append(key)
            return await super().read_lac(ledger_id, key)

    await world.crash()
    world.bookie, world.speaks = Older(BOOKIE, world.disk), FIRST
    await world.start()
    link = world.link()
    await opened(link, 7)
    for name, look in LOOKS.items():
        await look(link, KEY)
        assert name
    assert plain == [None, None]
    for change in CHANGES.values():
        await change(link, KEY)
