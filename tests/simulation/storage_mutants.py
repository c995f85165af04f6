"""Bugs of a bookie's work in the background: rounds, checkpoints, and what they leave.

They show only where segments are so small that a short life has rounds in it, and a restart begins
with what a checkpoint says.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Final

from tests.simulation.patching import Patch
from tests.simulation.planting import Mutant
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.life import life
from zonekeeper.bookie.storage import compaction
from zonekeeper.bookie.storage.compaction import Compactor
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.memory import Memory
from zonekeeper.client.sessions import newcomers
from zonekeeper.client.sessions.owner import Owner
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.metadata.cluster import evidence
from zonekeeper.metadata.ledgers.underreplication import Claim
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.ensembles.failures import PlacementError
from zonekeeper.replication.repair import limbo
from zonekeeper.replication.repair.copying import Copier
from zonekeeper.replication.repair.ledger_repair import Obstacle
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.wire.formats import entries, errors
from zonekeeper.wire.formats.proofs import KEY_WITHOUT_PASSWORD, Shown


def _checkpoints_forget() -> Sequence[Patch]:
    def rendered(self: Memory, some: Iterable[Ledger]) -> list[bytes]:
        del self, some
        return []

    return [(Memory, "rendered", rendered)]


def _digests_are_not_compared() -> Sequence[Patch]:
    def compare_digest(a: bytes, b: bytes) -> bool:
        del a, b
        return True

    return [(entries, "hmac", SimpleNamespace(compare_digest=compare_digest))]


def _deleted_ledgers_are_opened_anew() -> Sequence[Patch]:
    def no_longer_here(
        state: admission.AdmissionState, event: admission.OpenWanted
    ) -> Sequence[admission.Effect] | None:
        del state, event
        return None

    def unproven(
        ledger_id: LedgerId,
        standing: admission.Standing | None,
        shown: Shown,
        create_token: int,
    ) -> Sequence[admission.Effect] | None:
        gone = isinstance(standing, admission.Gone)
        return None if gone else original(ledger_id, standing, shown, create_token)

    original = admission._unproven
    return [(admission, "_no_longer_here", no_longer_here), (admission, "_unproven", unproven)]


def _any_word_ends_limbo() -> Sequence[Patch]:
    async def everything(ledger_id: LedgerId, boot_epoch: int) -> bool:
        del ledger_id, boot_epoch
        return True

    return [(life, "vouched_in", lambda cluster, bookie: everything)]


def _evidence_is_overlooked() -> Sequence[Patch]:
    def nothing(*seen: object) -> tuple[object, ...]:
        del seen
        return ()

    return [(evidence, "proofs", nothing)]


def _newcomers_are_not_asked() -> Sequence[Patch]:
    async def none(bookies: object, starts: object) -> dict[BookieId, str]:
        del bookies, starts
        return {}

    async def no_checks(*asked: object) -> list[Check]:
        del asked
        return []

    return [(newcomers, "started_again", none), (newcomers, "checks", no_checks)]


def _what_did_not_fit_is_skipped() -> Sequence[Patch]:
    original = Copier._examine

    async def examine(self: Copier, bookie: BookieId, wanted: range) -> tuple[int, list[range]]:
        _, missing = await original(self, bookie, wanted)
        return len(wanted), missing

    return [(Copier, "_examine", examine)]


def _limbo_ends_before_the_look() -> Sequence[Patch]:
    original = Repairer._repair

    async def repair(
        self: Repairer, claim: Claim, starts: dict[BookieId, Check]
    ) -> tuple[Obstacle, ...]:
        pool = self.client.bookies.pool
        found = await limbo.find(pool, claim.ledger_id, KEY_WITHOUT_PASSWORD, claim.mark.replicas)
        for bookie, boot_epoch in found.boots.items():
            with suppress(errors.ProtocolError):
                await limbo.end(self.cluster, pool, claim, bookie, boot_epoch)
        return await original(self, claim, starts)

    return [(Repairer, "_repair", repair)]


def _unknown_changes_are_impossible() -> Sequence[Patch]:
    async def undecided(
        self: Owner, error: PlacementError | StoreError, *, tried: bool
    ) -> ev.ChangeEvent:
        del self, tried
        return ev.ChangeImpossible(error=error)

    return [(Owner, "_undecided", undecided)]


def _compaction_leaves_a_frame_out() -> Sequence[Patch]:
    original = Compactor._plan

    def plan(self: Compactor, found: compaction._Found) -> compaction._Plan:
        made = original(self, found)
        return compaction._Plan(made.copies[1:], made.cut)

    return [(Compactor, "_plan", plan)]


STORAGE_MUTANTS: Final[Mapping[int, Mutant]] = {
    30: Mutant(
        number=30,
        what="checkpoints forget fences, LACs and keys",
        profile="crashy-disk",
        within_seeds=100,
        patches=_checkpoints_forget,
        in_crash_states="mark_ignores_ledger_state",
    ),
    31: Mutant(
        number=31,
        what="digests are not compared",
        profile="corrupting",
        within_seeds=100,
        patches=_digests_are_not_compared,
    ),
    32: Mutant(
        number=32,
        what="a ledger that was deleted and collected is opened anew",
        profile="deletion",
        within_seeds=100,
        patches=_deleted_ledgers_are_opened_anew,
    ),
    33: Mutant(
        number=33,
        what="a store that was set back is believed",
        profile="set-back",
        within_seeds=100,
        patches=_evidence_is_overlooked,
    ),
    34: Mutant(
        number=34,
        what="any word ends limbo",
        profile="upkeep",
        within_seeds=100,
        patches=_any_word_ends_limbo,
    ),
    35: Mutant(
        number=35,
        what="newcomers are not asked in which start they are",
        profile="newcomers",
        within_seeds=400,
        patches=_newcomers_are_not_asked,
    ),
    36: Mutant(
        number=36,
        what="a repair skips what did not fit into a reply",
        profile="upkeep",
        within_seeds=600,
        patches=_what_did_not_fit_is_skipped,
    ),
    37: Mutant(
        number=37,
        what="limbo ends before the repair has looked",
        profile="upkeep",
        within_seeds=100,
        patches=_limbo_ends_before_the_look,
    ),
    38: Mutant(
        number=38,
        what="an ensemble change of unknown outcome counts as impossible",
        profile="store-outage",
        within_seeds=1_500,
        patches=_unknown_changes_are_impossible,
    ),
    39: Mutant(
        number=39,
        what="compaction leaves a frame out",
        profile="upkeep",
        within_seeds=100,
        patches=_compaction_leaves_a_frame_out,
    ),
}
