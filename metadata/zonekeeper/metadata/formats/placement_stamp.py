"""The stamp: the placement that a ledger was created under, kept with the ledger itself.

    zonekeeper.placement    {"ackZones":2,"desiredZones":3,"format":1,"minZones":2,"policy":7,
                             "strict":true,"zones":["a","b","c"]}

Apache's metadata has no place for the zones that an acknowledgement must span, and the policy may
change while a ledger lives. So the creator writes what it kept to into custom metadata. Audit and
repair judge by the policy of today; of the stamp they, and recovery, need ``ackZones`` alone. The
rest is for people who want to know what was meant then.

A ledger without a stamp is another program's, and its acknowledgements span one zone at least. A
stamp that cannot be read is a third answer. Who goes on as the ledger's writer did must not go on
then, or it would acknowledge under a weaker promise: ``promised`` raises. Who reads and judges
what is stored already takes the least that may have been promised: ``quorums_of`` does not raise,
and no damaged stamp hides a ledger's entries from anybody.

Ledgers were created once with more zones than an acknowledgement has bookies. Each of these in a
zone of its own is the most that their writer can have kept to, and that is what they promise.
"""

import json
from typing import Final

from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.formats.malformed import (
    Flaw,
    MalformedError,
    UnreadableError,
    UnsupportedError,
    stored_at,
)
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules

KEY: Final = "zonekeeper.placement"
_FORMAT: Final = 1


def render(quorums: Quorums, rules: PlacementRules, policy_version: int) -> bytes:
    """Write a stamp."""
    stamp = {
        "format": _FORMAT,
        "policy": policy_version,
        "ackZones": quorums.ack_zones,
        "zones": list(rules.zones),
        "minZones": rules.min_zones,
        "desiredZones": rules.desired_zones,
        "strict": rules.strict,
    }
    return json.dumps(stamp, sort_keys=True, separators=(",", ":")).encode()


def parse(raw: bytes) -> int:
    """Give the zones that an acknowledgement spans; raises ``UnreadableError``."""
    data = records.parse_object(raw)
    # Stamps of rebuilt ledgers had no format once, and were of the first.
    version = records.number(data, "format") if "format" in data else _FORMAT
    if version > _FORMAT:
        raise UnsupportedError(f"a stamp of format {version}; this program reads up to {_FORMAT}")
    zones = records.number(data, "ackZones")
    if zones < 1:
        raise MalformedError(Flaw.OUT_OF_RANGE, "ackZones must be a number from 1")
    return zones


def promised(ledger: LedgerMetadata) -> Quorums:
    """Give the quorums that a ledger's writer kept to, for who goes on with it.

    Raises ``UnreadableError`` if its stamp cannot be read.
    """
    raw = ledger.custom_value(KEY)
    if raw is None:
        return _quorums(ledger, 1)
    with stored_at(KEY, "its custom metadata"):
        zones = parse(raw)
    return _quorums(ledger, min(zones, ledger.ack_quorum))


def quorums_of(ledger: LedgerMetadata) -> Quorums:
    """Give a ledger's quorums, for who reads or judges it: one zone where nothing says more."""
    try:
        return promised(ledger)
    except UnreadableError:
        return _quorums(ledger, 1)


def _quorums(ledger: LedgerMetadata, zones: int) -> Quorums:
    return Quorums(
        ensemble=ledger.ensemble_size,
        write=ledger.write_quorum,
        ack=ledger.ack_quorum,
        ack_zones=zones,
    )
