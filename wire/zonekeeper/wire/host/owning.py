"""Whose a ledger is, asked before a request for it is done.

The bookie knows, or reads it in the metadata store. A caller that may work on ledgers of others is
not held up by that question: its guard gives no judge.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors
from zonekeeper.wire.host.access import Guard
from zonekeeper.wire.identity.rights import Operation

#: The requests that leave something of a ledger at a bookie that knows nothing of it yet.
_LEAVES_TRACES: Final = frozenset({Operation.FENCE, Operation.FENCING_READ})
#: For a caller that may do none of these with ledgers of others the owner matters at the opening.
_WRITES: Final = (Operation.OPEN, Operation.APPEND)


async def check(
    bookie: service.BookieService,
    guard: Guard,
    operation: Operation,
    ledger_id: LedgerId,
    create_token: int = 0,
) -> None:
    """Raise NotPermitted for a ledger of another owner, or why the owner is not known.

    ``create_token`` is that of the ledger which the request means; 0: it does not say.
    """
    if (judge := guard.judge(operation, ledger_id)) is None:
        return
    found: str | errors.ProtocolError
    try:
        found = await bookie.owner(
            ledger_id, also_unknown=operation in _LEAVES_TRACES, create_token=create_token
        )
    except errors.ProtocolError as error:
        found = error
    if (refusal := judge(found)) is not None:
        raise refusal


class OwnedLedgers:
    """The owners of the ledgers that one Append stream has open, where they matter.

    An opening brings the owner, and the ledger has it once the opening is acknowledged: another
    opening of the same ledger that is refused takes nothing away.
    """

    __slots__ = ("_by_ledger", "_caller", "_found", "_guard", "_opening")

    def __init__(self, guard: Guard, opening: Mapping[int, LedgerId]) -> None:
        """``opening`` has the stream's openings without an answer; the stream keeps it."""
        self._guard = guard
        self._caller = guard.caller
        self._opening = opening
        #: The owners that these openings have brought: number to owner.
        self._found: dict[int, str] = {}
        self._by_ledger: dict[LedgerId, str] = {}

    def __len__(self) -> int:
        return len(self._by_ledger)

    def is_another_caller_s(self) -> bool:
        """Is the caller another one since this was asked, and does it matter whose a ledger is?

        Then all ledgers must be opened again. What was opened by a caller that may work on ledgers
        of others says nothing of a caller that may not.
        """
        caller, before = self._guard.caller, self._caller
        if caller is before:
            return False
        self._caller = caller
        return caller != before and self._guard.asks_for_owners

    def judge(self, number: int, ledger_id: LedgerId) -> errors.OwnerJudge | None:
        """Give what decides about an opening; None: no owner matters for this stream."""
        guard = self._guard
        asks = any(guard.judge(each, ledger_id) is not None for each in _WRITES)
        return partial(self._decided, number, ledger_id) if asks else None

    def refusal(self, operation: Operation, ledger_id: LedgerId) -> errors.ProtocolError | None:
        """Give the error for a write to an open ledger; None: do it."""
        if not self._by_ledger or (owner := self._by_ledger.get(ledger_id)) is None:
            return None
        return self._guard.owner_refusal(operation, ledger_id, owner)

    def opened(self, number: int, ledger_id: LedgerId) -> None:
        """The ledger is open from now on, and has the owner that this opening has brought."""
        if (owner := self._found.pop(number, None)) is not None:
            self._by_ledger[ledger_id] = owner
        elif self._by_ledger:
            self._by_ledger.pop(ledger_id, None)

    def not_opened(self, number: int) -> None:
        """Forget an opening that opens nothing."""
        self._found.pop(number, None)

    def forget(self, ledger_id: LedgerId) -> None:
        """Forget a ledger that is not open any more."""
        self._by_ledger.pop(ledger_id, None)

    def clear(self) -> None:
        """Forget all."""
        self._found.clear()
        self._by_ledger.clear()

    def _decided(
        self, number: int, ledger_id: LedgerId, found: str | errors.ProtocolError
    ) -> errors.ProtocolError | None:
        refusal = self._guard.owner_refusal(Operation.OPEN, ledger_id, found)
        if refusal is None and found and isinstance(found, str) and number in self._opening:
            self._found[number] = found
        return refusal
