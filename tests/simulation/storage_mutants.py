"""Bugs of a bookie's work in the background: rounds, checkpoints, and what they leave.

They show only where segments are so small that a short life has rounds in it, and a restart begins
with what a checkpoint says.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Final

from tests.simulation.patching import Patch
from tests.simulation.planting import Mutant
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.memory import Memory
from zonekeeper.wire.formats import entries


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

    return [(admission, "_no_longer_here", no_longer_here)]


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
}
