"""The stamp: the placement that a ledger was created under, kept with the ledger itself.

Apache's metadata has no place for the zones that an acknowledgement must span, and the policy may
change while a ledger lives. So the creator writes what it kept to into custom metadata, as sorted
JSON. Audits judge by the present policy and may compare; recovery goes on as the writer did.
"""

import json
from typing import Final

from zonekeeper.metadata.ledger_metadata import LedgerMetadata
from zonekeeper.placement.policy import PlacementRules
from zonekeeper.placement.quorums import Quorums

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


def quorums_of(ledger: LedgerMetadata) -> Quorums:
    """Give a ledger's quorums; the zones of its acks are 1 where no stamp says more."""
    return Quorums(
        ensemble=ledger.ensemble_size,
        write=ledger.write_quorum,
        ack=ledger.ack_quorum,
        ack_zones=min(_ack_zones(ledger.custom_value(KEY)), ledger.ack_quorum),
    )


def _ack_zones(raw: bytes | None) -> int:
    """Read what a stamp says; one that cannot be read says nothing."""
    try:
        stamp = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        return 1
    zones = stamp.get("ackZones", 1) if isinstance(stamp, dict) else 1
    return zones if isinstance(zones, int) and zones >= 1 else 1
