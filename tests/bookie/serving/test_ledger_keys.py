"""A bookie gives nothing of a ledger with a password to those who do not show its key."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.bookie.running import (
    BOOKIE,
    KEY,
    LEDGER,
    OTHER_KEY,
    THERE,
    Outcomes,
    append,
    frame,
    open_fragment,
    opening,
    read_ids,
    running,
)
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.serving import key_gate
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, digests, errors, openings, proofs
from zonekeeper.wire.formats.proofs import ProofAct, Prover, Shown, ShownProof
from zonekeeper.wire.running.bookie_config import KeyRule

NONCE = bytes(range(16))
ABSENT = LedgerId(99)


def proof(
    act: ProofAct,
    key: digests.MasterKey = KEY,
    *,
    of: LedgerId = LEDGER,
    made_for: ProofAct | None = None,
) -> ShownProof:
    """Give what comes for ``LEDGER`` and an act; it may be made for another ledger or act."""
    made = Prover(BOOKIE, NONCE).on_stream(made_for or act, key, of)
    return ShownProof(act=act, bookie=BOOKIE, nonce=NONCE, ledger_id=LEDGER, proof=made)


async def _read(bookie: BookieServer, shown: Shown | None, ledger_id: LedgerId = LEDGER) -> None:
    await bookie.read(
        service.ReadRequest(
            ledger_id=ledger_id,
            first_entry_id=EntryId(0),
            last_entry_id=EntryId(0),
            bytes_max=1 << 20,
            key=shown,
        )
    )


async def _tail(bookie: BookieServer, shown: Shown | None, ledger_id: LedgerId = LEDGER) -> None:
    request = service.TailRequest(
        ledger_id=ledger_id,
        first_entry_id=EntryId(0),
        bytes_max=1 << 20,
        quiet_ms=1_000,
        key=shown,
    )
    async with aclosing(bookie.tail(request)) as updates:
        await anext(updates)


async def _list(bookie: BookieServer, shown: Shown | None, ledger_id: LedgerId = LEDGER) -> None:
    request = service.ListEntriesRequest(
        ledger_id=ledger_id, first_entry_id=EntryId(0), ranges_max=9, key=shown
    )
    await bookie.list_entries(request)


async def _lac(bookie: BookieServer, shown: Shown | None, ledger_id: LedgerId = LEDGER) -> None:
    await bookie.read_lac(ledger_id, shown)


async def _force(bookie: BookieServer, shown: Shown | None, ledger_id: LedgerId = LEDGER) -> None:
    await bookie.force(ledger_id, shown)


#: What only looks at a ledger, by the name in metrics, and the act of its proof.
LOOKS: dict[str, tuple[Callable[..., Awaitable[None]], ProofAct]] = {
    "read": (_read, ProofAct.READ),
    "read-lac": (_lac, ProofAct.READ_LAC),
    "tail": (_tail, ProofAct.TAIL),
    "list": (_list, ProofAct.LIST),
    "force": (_force, ProofAct.FORCE),
}


async def written(bookie: BookieServer, rule: KeyRule) -> None:
    bookie.keys.rule = rule
    await open_fragment(bookie, opening())
    assert await append(bookie, frame(0)) == [None]


def test_every_look_has_its_name_in_metrics() -> None:
    assert tuple(LOOKS) == key_gate.LOOKS


@pytest.mark.parametrize("name", LOOKS)
@virtual_time.played
async def test_with_the_rule_on_only_the_right_key_looks(name: str) -> None:
    look, act = LOOKS[name]
    wrong: list[Shown | None] = [
        None,
        OTHER_KEY,
        proof(act, OTHER_KEY),
        proof(act, of=LedgerId(8)),
        proof(act, proofs.KEY_WITHOUT_PASSWORD),
        proof(act, made_for=ProofAct.OPEN),
    ]
    async with running(MemoryFileSystem()) as bookie:
        await written(bookie, KeyRule.ON)
        for count, shown in enumerate(wrong, 1):
            with pytest.raises(errors.UnauthorizedAccess) as caught:
                await look(bookie, shown)
            assert (caught.value.retryable, caught.value.maybe_applied) == (False, False)
            assert bookie.keys.unproven == {name: count}
        await look(bookie, proof(act))
        await look(bookie, KEY)
        assert bookie.keys.unproven == {name: len(wrong)}


@pytest.mark.parametrize("name", LOOKS)
@virtual_time.played
async def test_with_the_rule_at_warn_it_is_answered_counted_and_logged(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    look, act = LOOKS[name]
    async with running(MemoryFileSystem()) as bookie:
        await written(bookie, KeyRule.WARN)
        with caplog.at_level(logging.WARNING, key_gate.__name__):
            await look(bookie, proof(act))
            assert not caplog.messages
            await look(bookie, None)
            await look(bookie, OTHER_KEY)
        assert bookie.keys.unproven == {name: 2}
        assert ["no key was shown" in text for text in caplog.messages] == [True, False]
        assert all(f"({name})" in text for text in caplog.messages)
        assert KEY.hex() not in caplog.text


@pytest.mark.parametrize("name", LOOKS)
@virtual_time.played
async def test_with_the_rule_off_nothing_is_asked_for(name: str) -> None:
    look, _ = LOOKS[name]
    async with running(MemoryFileSystem()) as bookie:
        await written(bookie, KeyRule.OFF)
        await look(bookie, None)
        await look(bookie, OTHER_KEY)
        assert not bookie.keys.unproven


def test_the_rule_is_warn_until_somebody_sets_it() -> None:
    assert key_gate.KeyGate(BOOKIE).rule is KeyRule.WARN


@pytest.mark.parametrize("name", LOOKS)
@virtual_time.played
async def test_a_ledger_without_a_password_is_everybodys(name: str) -> None:
    look, _ = LOOKS[name]
    async with running(MemoryFileSystem()) as bookie:
        bookie.standing = lambda _: _said(admission.Stands(master_key=proofs.KEY_WITHOUT_PASSWORD))
        bookie.keys.rule = KeyRule.ON
        await open_fragment(bookie, opening(key=proofs.KEY_WITHOUT_PASSWORD))
        assert await append(bookie, frame(0)) == [None]
        await look(bookie, None)
        assert not bookie.keys.unproven


async def _said(standing: admission.Standing) -> admission.Standing:
    return standing


@virtual_time.played
async def test_of_what_is_not_here_nothing_is_said_and_no_metadata_is_read() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await written(bookie, KeyRule.ON)
        asked: list[LedgerId] = []

        async def standing(ledger_id: LedgerId) -> admission.Standing:
            asked.append(ledger_id)
            return THERE

        bookie.standing = standing
        for look in (_read, _tail, _list):
            with pytest.raises(errors.NoSuchLedger):
                await look(bookie, None, ABSENT)
        nothing = service.LacEvidence(explicit_lac=None, last_entry=None)
        assert await bookie.read_lac(ABSENT) == nothing
        assert not asked
        assert ABSENT not in bookie._memory.ledgers


@virtual_time.played
async def test_a_fence_that_was_answered_shows_its_evidence_without_another_proof() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await written(bookie, KeyRule.ON)
        evidence = await bookie.fence(LEDGER, proof(ProofAct.FENCE))
        assert evidence.last_entry is not None
        assert not bookie.keys.unproven


@virtual_time.played
async def test_a_wrong_proof_fences_nothing_and_the_right_one_does_afterwards() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await written(bookie, KeyRule.OFF)  # whatever the rule for looks is
        wrong = [
            proof(ProofAct.FENCE, OTHER_KEY),
            proof(ProofAct.FENCE, of=LedgerId(8)),
            proof(ProofAct.FENCE, made_for=ProofAct.READ),
            proof(ProofAct.FENCE, proofs.KEY_WITHOUT_PASSWORD),
        ]
        for shown in wrong:
            with pytest.raises(errors.UnauthorizedAccess):
                await bookie.fence(LEDGER, shown)
            with pytest.raises(errors.UnauthorizedAccess):
                await bookie.read(
                    service.ReadRequest(
                        ledger_id=LEDGER,
                        first_entry_id=EntryId(0),
                        last_entry_id=EntryId(0),
                        bytes_max=1,
                        fence_key=shown,
                    )
                )
        assert not bookie._memory.ledgers[LEDGER].admitted.fenced
        assert await append(bookie, frame(1)) == [None]
        await bookie.fence(LEDGER, proof(ProofAct.FENCE))
        assert bookie._memory.ledgers[LEDGER].durable.fenced
        assert isinstance((await append(bookie, frame(2)))[0], errors.Fenced)


# ── openings that prove ──


async def open_proving(
    bookie: BookieServer,
    shown: ShownProof,
    wanted: openings.FragmentOpening | None = None,
    *,
    was_open: bool = False,
) -> None:
    """Open a fragment as a host hands it over: with a proof in place of the key."""
    wanted = replace(wanted or opening(), master_key=digests.MasterKey(shown.proof))
    heard = Outcomes()
    item = carriers.Open(number=0, opening=wanted, proven=True, shown=shown, was_open=was_open)
    bookie.append([item], heard)
    if (refused := await heard.of(0)) is not None:
        raise refused


@virtual_time.played
async def test_a_ledger_that_is_not_known_gets_its_key_from_metadata_and_keeps_it() -> None:
    files = MemoryFileSystem()
    async with running(files) as bookie:
        await open_proving(bookie, proof(ProofAct.OPEN))
        assert await append(bookie, frame(0, 1)) == [None]
        state = bookie._memory.ledgers[LEDGER].durable
        assert state.master_key == KEY
        assert [each.master_key for each in state.fragments] == [KEY]
    async with running(files, boot_epoch=2) as bookie:
        bookie.keys.rule = KeyRule.ON
        assert bookie._memory.ledgers[LEDGER].durable.master_key == KEY
        with pytest.raises(errors.UnauthorizedAccess):
            await _read(bookie, None)
        assert await read_ids(bookie, key=KEY) == [0, 1]


@virtual_time.played
async def test_the_disk_holds_the_same_whether_the_key_was_proven_or_shown() -> None:
    states = []
    for proves in (False, True):
        async with running(MemoryFileSystem()) as bookie:
            if proves:
                await open_proving(bookie, proof(ProofAct.OPEN))
                await bookie.fence(LEDGER, proof(ProofAct.FENCE))
            else:
                await open_fragment(bookie, opening())
                await bookie.fence(LEDGER, KEY)
            states.append(bookie._memory.ledgers[LEDGER].durable)
    assert states[0] == states[1]


@virtual_time.played
async def test_a_stranger_claims_no_ledger_with_a_key_of_his_own() -> None:
    async with running(MemoryFileSystem()) as bookie:
        for wrong in (proof(ProofAct.OPEN, OTHER_KEY), proof(ProofAct.OPEN, of=LedgerId(8))):
            with pytest.raises(errors.UnauthorizedAccess):
                await open_proving(bookie, wrong)
        with pytest.raises(errors.UnauthorizedAccess):
            await bookie.fence(LEDGER, proof(ProofAct.FENCE, OTHER_KEY))
        assert LEDGER not in bookie._memory.ledgers
        await open_proving(bookie, proof(ProofAct.OPEN))
        assert await append(bookie, frame(0)) == [None]


@virtual_time.played
async def test_a_ledger_that_is_yet_to_come_is_fenced_by_nobody() -> None:
    async with running(MemoryFileSystem()) as bookie:
        bookie.standing = lambda _: _said(admission.Gone())
        for shown in (KEY, OTHER_KEY, proof(ProofAct.FENCE), proof(ProofAct.FENCE, OTHER_KEY)):
            with pytest.raises(errors.LedgerDeleted):
                await bookie.fence(LEDGER, shown)
        assert LEDGER not in bookie._memory.ledgers
        bookie.standing = lambda _: _said(THERE)
        await open_proving(bookie, proof(ProofAct.OPEN))
        assert await append(bookie, frame(0)) == [None]


@virtual_time.played
async def test_what_cannot_be_proven_while_the_store_is_away_is_refused_for_now() -> None:
    async with running(MemoryFileSystem()) as bookie:

        async def away(ledger_id: LedgerId) -> admission.Standing:
            raise errors.MetadataAway(f"ledger {ledger_id}: the store is away")

        bookie.standing = away
        for work in (
            open_proving(bookie, proof(ProofAct.OPEN)),
            bookie.fence(LEDGER, proof(ProofAct.FENCE)),
        ):
            with pytest.raises(errors.MetadataAway) as caught:
                await work
            assert (caught.value.retryable, caught.value.maybe_applied) == (True, False)
        assert LEDGER not in bookie._memory.ledgers
        bookie.standing = lambda _: _said(THERE)
        await open_proving(bookie, proof(ProofAct.OPEN))
        bookie.standing = away  # the key is known by now
        await open_proving(bookie, proof(ProofAct.OPEN), opening(first=5))
        with pytest.raises(errors.UnauthorizedAccess):
            await open_proving(bookie, proof(ProofAct.OPEN, OTHER_KEY), opening(first=6))
        await bookie.fence(LEDGER, proof(ProofAct.FENCE))


@virtual_time.played
async def test_two_who_open_at_once_are_judged_each_by_its_own_proof() -> None:
    """The key is learned for one of them while the other waits for the store."""
    async with running(MemoryFileSystem()) as bookie:
        gate = asyncio.Event()

        async def late(ledger_id: LedgerId) -> admission.Standing:
            await gate.wait()
            return THERE

        bookie.standing = late
        opens = [
            asyncio.ensure_future(open_proving(bookie, shown, opening(first=at)))
            for at, shown in enumerate(
                (proof(ProofAct.OPEN, OTHER_KEY), proof(ProofAct.OPEN), proof(ProofAct.OPEN))
            )
        ]
        fences = [
            asyncio.ensure_future(bookie.fence(LEDGER, shown))
            for shown in (proof(ProofAct.FENCE, OTHER_KEY), proof(ProofAct.FENCE))
        ]
        await asyncio.sleep(1)
        gate.set()
        outcomes = await asyncio.gather(*opens, *fences, return_exceptions=True)
        refused = [isinstance(each, errors.UnauthorizedAccess) for each in outcomes]
        assert refused == [True, False, False, True, False]
        state = bookie._memory.ledgers[LEDGER].durable
        assert [each.first_entry_id for each in state.fragments] == [1, 2]
        assert state.master_key == KEY


@virtual_time.played
async def test_the_next_ledger_with_the_id_has_another_key() -> None:
    """The first ledger's proofs are wrong for it, and its own are right."""
    async with running(MemoryFileSystem()) as bookie:
        bookie.keys.rule = KeyRule.ON
        await open_proving(bookie, proof(ProofAct.OPEN), replace(opening(), create_token=1))
        assert await append(bookie, frame(0)) == [None]
        await bookie._storage.forget([LEDGER])
        bookie.standing = lambda _: _said(admission.Stands(master_key=OTHER_KEY, create_token=2))
        anew = replace(opening(), create_token=2)
        with pytest.raises(errors.UnauthorizedAccess):
            await open_proving(bookie, proof(ProofAct.OPEN), anew)
        with pytest.raises(errors.NoSuchLedger):
            await _read(bookie, proof(ProofAct.READ))
        await open_proving(bookie, proof(ProofAct.OPEN, OTHER_KEY), anew)
        with pytest.raises(errors.UnauthorizedAccess):
            await _read(bookie, proof(ProofAct.READ))
        await _read(bookie, proof(ProofAct.READ, OTHER_KEY))


@virtual_time.played
async def test_metrics_name_the_looks_that_did_not_show_a_key() -> None:
    async with running(MemoryFileSystem()) as bookie:
        await written(bookie, KeyRule.ON)
        with pytest.raises(errors.UnauthorizedAccess):
            await _list(bookie, None)
        (family,) = bookie.keys.families()
        samples = family.samples
        assert samples[("operation", "list"), ("rule", "on")] == 1
        assert samples[("operation", "read"), ("rule", "on")] == 0
