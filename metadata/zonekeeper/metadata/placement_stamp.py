"""Under which placement a ledger was created: a stamp in its custom metadata.

    zonekeeper.placement    {"ackZones":2,"desiredZones":3,"minZones":2,"policy":7,"strict":true}

Apache's metadata has no place for the zones that an acknowledgement needs, and a writer or a
recovery must go by those of the ledger, not by those of today. Audit and repair judge placement by
the policy of today; the stamp tells them what was meant then.
"""

import json
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata import records
from zonekeeper.metadata.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.malformed import Flaw, MalformedError
from zonekeeper.placement.policy import Policy
from zonekeeper.placement.quorums import Quorums

KEY: Final = "zonekeeper.placement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What the policy asked for when the ledger was created."""

    policy_version: int
    ack_zones: int
    min_zones: int
    desired_zones: int
    strict: bool


def of_policy(policy: Policy) -> Stamp:
    """Give the stamp of a ledger that is created now."""
    return Stamp(
        policy_version=policy.version,
        ack_zones=policy.quorums.ack_zones,
        min_zones=policy.placement.min_zones,
        desired_zones=policy.placement.desired_zones,
        strict=policy.placement.strict,
    )


def render(stamp: Stamp) -> tuple[str, bytes]:
    """Give the entry of the custom metadata."""
    data = {
        "ackZones": stamp.ack_zones,
        "desiredZones": stamp.desired_zones,
        "minZones": stamp.min_zones,
        "policy": stamp.policy_version,
        "strict": stamp.strict,
    }
    return KEY, json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def parse(raw: bytes) -> Stamp:
    """Read a stamp; what a later version adds to it is passed over."""
    data = records.parse_object(raw)
    strict = data.get("strict")
    if not isinstance(strict, bool):
        raise MalformedError(Flaw.WRONG_TYPE, "strict must be true or false")
    return Stamp(
        policy_version=records.number(data, "policy"),
        ack_zones=records.number(data, "ackZones"),
        min_zones=records.number(data, "minZones"),
        desired_zones=records.number(data, "desiredZones"),
        strict=strict,
    )


def of_ledger(ledger: LedgerMetadata) -> Stamp | None:
    """Read a ledger's stamp; None: it has none, because another program created it."""
    raw = ledger.custom_value(KEY)
    return None if raw is None else parse(raw)


def quorums(ledger: LedgerMetadata) -> Quorums:
    """Give a ledger's quorums, with the zones that its acknowledgements need (no stamp: one)."""
    stamp = of_ledger(ledger)
    return Quorums(
        ensemble=ledger.ensemble_size,
        write=ledger.write_quorum,
        ack=ledger.ack_quorum,
        ack_zones=1 if stamp is None else stamp.ack_zones,
    )
