"""The rule for ledgers with a password: who does not show the key gets nothing of them.

An opening and a fence, which change a ledger, always need its key (``ledgers.admission``). This
rule is for what only looks: reads, LACs, tails, lists, and the force. A release before the proofs
shows no key there. So the rule is switched on in steps, and each refusal that would be is counted.

A bookie has nothing of a ledger whose key it does not know: the first record of a ledger has its
key, and metadata was read before (``vouching``). So this rule reads no metadata. A ledger without a
password has a key that everybody knows, and needs none.
"""

import logging
from collections import Counter
from typing import Final

from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import errors, proofs
from zonekeeper.wire.formats.exposition import Family
from zonekeeper.wire.formats.proofs import Shown
from zonekeeper.wire.running.bookie_config import KeyRule

_logger = logging.getLogger(__name__)


#: The requests that only look, as metrics name them.
LOOKS: Final = ("read", "read-lac", "tail", "list", "force")


class KeyGate:
    """The rule at one bookie, and what it has found."""

    def __init__(self, bookie: BookieId) -> None:
        self._bookie = bookie
        self.rule = KeyRule.WARN
        #: The requests that did not show the key, by operation.
        self.unproven: Counter[str] = Counter()

    def check(self, operation: str, ledger: Ledger, shown: Shown | None) -> None:
        """Raise UnauthorizedAccess if the ledger has a password, and its key is not shown."""
        ledger_id, key = ledger.ledger_id, ledger.admitted.master_key
        if self.rule is KeyRule.OFF or key is None or not proofs.needed(key):
            return
        if proofs.fits(shown, key):
            return
        self.unproven[operation] += 1
        why = "no key was shown" if shown is None else "another key was shown"
        if self.rule is KeyRule.ON:
            raise errors.UnauthorizedAccess(
                f"ledger {ledger_id} has a password, and {why} to {self._bookie} ({operation}): is "
                "the password right, and is the client of a release that proves it?"
            )
        _logger.warning(
            "ledger %d has a password, and %s (%s); with --ledger-keys on it would be refused",
            ledger_id,
            why,
            operation,
            extra={"ledger": ledger_id, "operation": operation},
        )

    def families(self) -> list[Family]:
        """Give the metrics."""
        return [
            Family(
                "zonekeeper_bookie_keys_unproven_total",
                {
                    (("operation", operation), ("rule", self.rule.value)): self.unproven[operation]
                    for operation in LOOKS
                },
                "Requests to look at a ledger with a password that did not show its key, by "
                "operation; with the rule on they were refused.",
            )
        ]
