"""The changes that a ledger's own writer makes in metadata: replace members, close the ledger.

Both are compare-and-set loops that decide on the stored version. If the ledger is not OPEN any
more, a recovery has taken it, and the writer stops without a change. There is one exception. When
everything that was appended is acknowledged, any recovery finds the same end as the writer. So the
writer may then close the ledger although it is IN_RECOVERY.

A ledger that was deleted and made anew under the same id is another ledger (``standing``). It is
never changed.

The last fragment of a ledger that is not closed is changed by its writer alone. So the owner knows
which one must stand in metadata. If there is another one, the store was set back to an older state:
it names bookies that lack acknowledged entries. Then nothing is changed, and the writer ends.
"""

import asyncio
import logging
from typing import Final

from zonekeeper.client.base import boundary, errors
from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.client.sessions import session_lines, standing
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.metadata.formats import ledger_metadata
from zonekeeper.metadata.formats.ledger_metadata import (
    Fragment,
    IllegalChangeError,
    LedgerMetadata,
    LedgerState,
)
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.ensembles.failures import PlacementError


class _SetBackError(Trouble):
    """Metadata shows another last fragment than the one that this writer has put there."""


_BEYOND_REPAIR: Final = (UnreadableError, IllegalChangeError, _SetBackError)

#: The pause before a change of unknown outcome is tried again.
_UNKNOWN_PAUSE_MS: Final = 100

_logger = logging.getLogger(__name__)


class Owner:
    """A ``write_session.Steward`` over the metadata store."""

    def __init__(
        self, bookies: Bookies, ledger_id: LedgerId, quorums: Quorums, created: LedgerMetadata
    ) -> None:
        self._bookies = bookies
        self._ledger_id = ledger_id
        self._create_token = created.create_token
        self._quorums = quorums
        #: The last fragment, as metadata showed it when it was known last.
        self._last = created.last_fragment
        #: May an earlier change of unknown outcome still be applied?
        self._doubtful = False

    async def change(self, wanted: ev.ChangeEnsemble) -> ev.ChangeEvent:
        """Replace failed members of the last ensemble, and give the outcome."""
        tried = False

        def decide(ledger: LedgerMetadata) -> LedgerMetadata | None:
            nonlocal tried
            standing.check(self._ledger_id, self._create_token, ledger)
            if ledger.state is not LedgerState.OPEN:
                return None
            if not ((tried or self._doubtful) and self._may_be_ours(ledger.last_fragment, wanted)):
                self._check_last(ledger)
            last = ledger.last_fragment.ensemble
            positions = [at for at, bookie in wanted.failed if last[at] == bookie]
            if not positions:
                return None
            ensemble = self._bookies.replace(self._quorums, last, positions)
            after = ledger_metadata.ensemble_changed(ledger, wanted.first_entry, ensemble)
            tried = True
            return after

        try:
            stored = await ledgers.change(self._bookies.cluster, self._ledger_id, decide)
        except (PlacementError, StoreError) as error:
            return await self._undecided(error, tried=tried)
        except ledgers.NoLedgerError as error:
            return ev.Dispossessed(error=_deleted(self._ledger_id, error))
        except _BEYOND_REPAIR as error:
            return ev.Dispossessed(error=_unreadable(self._ledger_id, error))
        self._doubtful = False
        if stored.metadata.state is not LedgerState.OPEN:
            return ev.Dispossessed(error=_taken(self._ledger_id, stored.metadata))
        before, self._last = self._last, stored.metadata.last_fragment
        session_lines.ensemble_changed(self._ledger_id, before, self._last, self._bookies)
        ensemble = self._last.ensemble
        return ev.Changed(ensemble=ensemble, zones=self._bookies.zones(ensemble))

    def _may_be_ours(self, last: Fragment, wanted: ev.ChangeEnsemble) -> bool:
        """May an attempt of unknown outcome, for this very change, have made this fragment?"""
        failed = {at for at, _ in wanted.failed}
        members = enumerate(zip(last.ensemble, self._last.ensemble, strict=True))
        stay = all(now == before for at, (now, before) in members if at not in failed)
        return last.first_entry == wanted.first_entry and stay

    def _check_last(self, ledger: LedgerMetadata) -> None:
        """Raise if the ledger does not end in the fragment that this writer knows."""
        last, ours = ledger.last_fragment, self._last
        if last != ours:
            raise _SetBackError(
                f"its last fragment begins at entry {last.first_entry}, on "
                f"{', '.join(last.ensemble)}, and this writer's at entry {ours.first_entry}, on "
                f"{', '.join(ours.ensemble)}: the store was set back to an older state, and "
                "acknowledged entries may be on bookies that it does not name; see `zonekeeper "
                "metadata restored`, and write to a new ledger"
            )

    async def _undecided(
        self, error: PlacementError | StoreError, *, tried: bool
    ) -> ev.ChangeEvent:
        """Give the outcome of a change that failed: impossible, unknown, or the writer must end.

        The writer must end after a store's error that no retry can cure. After an attempt of
        unknown outcome, metadata may show another ensemble at any later time, until a later read or
        write shows which version stands. So "no newcomers" is then no answer: the outcome stays
        unknown.
        """
        if isinstance(error, StoreError) and not (error.retryable or error.maybe_applied):
            return ev.Dispossessed(error=_unreadable(self._ledger_id, error))
        if isinstance(error, PlacementError) and not (self._doubtful or tried):
            return ev.ChangeImpossible(error=error)
        self._doubtful = self._doubtful or tried or error.maybe_applied
        _logger.warning("ledger %d: ensemble change: %s", self._ledger_id, error)
        await asyncio.sleep(_UNKNOWN_PAUSE_MS / 1_000)
        return ev.ChangeUnknown(error=error)

    async def look_up(self) -> ev.StandingEvent:
        """Read whether the ledger is there and still this writer's."""
        try:
            ledger = await standing.look_up(
                self._bookies.cluster, self._ledger_id, self._create_token
            )
        except ledgers.NoLedgerError as error:
            return ev.LedgerGone(error=_deleted(self._ledger_id, error))
        except UnreadableError as error:
            return ev.LedgerGone(error=_unreadable(self._ledger_id, error))
        except StoreError as error:
            if not (error.retryable or error.maybe_applied):
                return ev.LedgerGone(error=_unreadable(self._ledger_id, error))
            _logger.warning("ledger %d: is it still there? %s", self._ledger_id, error)
            return ev.LedgerUnknown(error=error)
        if ledger.state is not LedgerState.OPEN:
            return ev.LedgerGone(error=_taken(self._ledger_id, ledger))
        return ev.LedgerStands()

    async def close(self, last_entry: EntryId, length: int) -> None:
        """Close the ledger at its last appended entry; raises ``ClientError``."""
        await self._close(last_entry, length, over_recovery=True)

    async def abandon(self, last_entry: EntryId, length: int) -> None:
        """Close at the LAC, unless a recovery has the ledger; a failure leaves it to a recovery."""
        try:
            await self._close(last_entry, length, over_recovery=False)
        except errors.ClientError as error:
            _logger.warning("ledger %d stays open at its LAC: %s", self._ledger_id, error)

    async def _close(self, last_entry: EntryId, length: int, *, over_recovery: bool) -> None:
        def decide(ledger: LedgerMetadata) -> LedgerMetadata | None:
            standing.check(self._ledger_id, self._create_token, ledger)
            if ledger.is_closed:
                return None
            if ledger.state is LedgerState.IN_RECOVERY and not over_recovery:
                return None
            self._check_last(ledger)
            return ledger_metadata.closed(ledger, last_entry=last_entry, length=length)

        with boundary.translated(f"closing ledger {self._ledger_id} at entry {last_entry}"):
            try:
                stored = await ledgers.change(self._bookies.cluster, self._ledger_id, decide)
            except _SetBackError as error:
                raise _unreadable(self._ledger_id, error) from error
        there = stored.metadata
        if not there.is_closed or (there.last_entry, there.length) != (last_entry, length):
            raise _taken(self._ledger_id, there)


def _taken(ledger_id: LedgerId, ledger: LedgerMetadata) -> errors.WriterStopped:
    if ledger.is_closed:
        return errors.ClosedByOther(
            f"ledger {ledger_id} was closed by another client, at entry {ledger.last_entry} "
            f"and {ledger.length} bytes: this writer acknowledged no entry after that"
        )
    return errors.Fenced(
        f"ledger {ledger_id} is {ledger.state.value}: another client recovers it; stop writing"
    )


def _deleted(ledger_id: LedgerId, error: Exception) -> errors.WriterStopped:
    stopped = errors.ClosedByOther(
        f"ledger {ledger_id} was deleted while it was written: {error}; "
        "nothing more is acknowledged in it: write to a new ledger"
    )
    stopped.__cause__ = error
    return stopped


def _unreadable(ledger_id: LedgerId, error: Exception) -> errors.WriterStopped:
    stopped = errors.WriterStopped(
        f"ledger {ledger_id} cannot be changed in the metadata store: {error}"
    )
    stopped.__cause__ = error
    return stopped
