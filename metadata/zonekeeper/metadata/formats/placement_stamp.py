"""The stamp: the placement that a ledger was created under, kept with the ledger itself.

    zonekeeper.placement    {"ackZones":2,"desiredZones":3,"format":1,"minZones":2,"policy":7,
                             "strict":true,"zones":["a","b","c"]}

Apache's metadata has no field for the zones that an acknowledgement must span, and the policy may
change during the life of a ledger. So the creator of a ledger writes the rules that it keeps into
custom metadata. Audit and repair judge by the present policy. They and recovery use only
``ackZones`` of the stamp. The other fields tell people what the rules were.

A ledger without a stamp was created by another program, and its acknowledgements span at least one
zone. An unreadable stamp is a third case. A client that goes on with the writing must then stop, or
it would acknowledge under a weaker promise: ``promised`` raises. A client that reads or judges
stored entries assumes the least that may have been promised: ``quorums_of`` does not raise. So a
damaged stamp hides no entries.

Some old ledgers have ``ackZones`` above their ack quorum. Their writer can at most have kept each
bookie of an ack quorum in a zone of its own, and so that is what they promise.
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
    """Give the bytes of a stamp."""
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
    """Give the number of zones that an acknowledgement spans; raises ``UnreadableError``."""
    data = records.parse_object(raw)
    # Stamps of rebuilt ledgers once had no format; they are of format 1.
    version = records.number(data, "format") if "format" in data else _FORMAT
    if version > _FORMAT:
        raise UnsupportedError(f"a stamp of format {version}; this program reads up to {_FORMAT}")
    zones = records.number(data, "ackZones")
    if zones < 1:
        raise MalformedError(Flaw.OUT_OF_RANGE, "ackZones must be a number from 1")
    return zones


def promised(ledger: LedgerMetadata) -> Quorums:
    """Give the quorums that a ledger's writer kept, for a client that goes on with the writing.

    Raises ``UnreadableError`` if the stamp cannot be read.
    """
    raw = ledger.custom_value(KEY)
    if raw is None:
        return _quorums(ledger, 1)
    with stored_at(KEY, "its custom metadata"):
        zones = parse(raw)
    return _quorums(ledger, min(zones, ledger.ack_quorum))


def quorums_of(ledger: LedgerMetadata) -> Quorums:
    """Give a ledger's quorums, for a client that reads or judges it; one zone if not known."""
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
