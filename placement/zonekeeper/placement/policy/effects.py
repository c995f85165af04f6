"""What each rule of the policy does, in a sentence or two, for people.

docs/policy.md and the custom resource say the same: both are made of this table.
"""

from collections.abc import Mapping
from typing import Final

#: By the full name of a rule, in the order of the record.
EFFECTS: Final[Mapping[str, str]] = {
    "quorums.ensemble": "The number of bookies that a new ledger is spread over.",
    "quorums.write": "The number of copies of each entry.",
    "quorums.ack": "So many bookies must have an entry before it is acknowledged.",
    "quorums.ackZones": "The acknowledgements of an entry must come from so many zones.",
    "quorums.digest": "The checksum of each entry: CRC32C, CRC32, HMAC or DUMMY (none).",
    "placement.zones": "The zones whose bookies get ledgers. A bookie in another zone gets none.",
    "placement.minZones": (
        "The copies of an entry stand in at least so many zones, or placement refuses."
    ),
    "placement.desiredZones": (
        "The copies of an entry stand in so many zones where that is possible."
    ),
    "placement.strict": (
        "If true, an ensemble that breaks the rules is refused. If false, it is built, and what "
        "is lost is said."
    ),
    "placement.upgradeDomains": (
        "Each zone has so many upgrade domains; ordinals are shared out over them."
    ),
    "placement.weightCap": (
        "No bookie gets more than so many times the new ledgers of one with the median free "
        "space. 0: no limit."
    ),
    "placement.quarantine": (
        "A bookie that failed a writer gets no new ledgers of that client for so long."
    ),
    "reads.pendingLimit": (
        "A bookie with so many outstanding requests of a client is asked after others. 0: off."
    ),
    "reads.failureMemory": "A bookie that failed a read is asked after others for so long.",
    "reads.hedgeAfter": "A read without an answer after this time asks the next replica, too.",
    "reads.hedgeRemoteAt": (
        "The best replica of another zone stands no later than this place in the order of "
        "asking, counted from 0."
    ),
    "reads.demoteReadOnly": "If true, read-only bookies are asked after writable ones.",
    "zoneWatch.lowMark": (
        "A zone is failing when its share of available bookies is at or under this mark, and at "
        "least minLost are lost."
    ),
    "zoneWatch.highMark": (
        "A zone is well when its share of available bookies is at or over this mark."
    ),
    "zoneWatch.minLost": "A zone that has lost fewer bookies than this is never failing.",
    "zoneWatch.writtenOffAlert": (
        "The alert zoneShrunk stands when this share of a zone was written off."
    ),
    "zoneWatch.clusterMinAvailable": (
        "If fewer than this share of all bookies are available, all repair is held."
    ),
    "zoneWatch.sessionTimeout": (
        "A bookie that is silent for so long is missing. Bookies read it at their start."
    ),
    "zoneWatch.evaluateEvery": "All zones are judged at least so often.",
    "zoneWatch.startGrace": (
        "A zone is unknown, and so held, until a zone watch has watched it for so long."
    ),
    "zoneWatch.suspectFor": (
        "A failing zone is suspect for so long before it is down. Three times this within "
        "flapWindow, in sum, is down as well."
    ),
    "zoneWatch.betweenMarksFor": (
        "A zone that is down, and stays between the marks for so long, counts as returning."
    ),
    "zoneWatch.holdUp": "A returning zone must stay well for so long before its gate opens.",
    "zoneWatch.holdUpMax": (
        "holdUp doubles each time the zone goes down within flapWindow, up to this."
    ),
    "zoneWatch.flapWindow": (
        "How long the zone watch remembers that a zone was suspect or went down."
    ),
    "zoneWatch.standInAfter": (
        "An autorecovery process stands for zone watch after so long without one."
    ),
    "zoneWatch.maintenanceMax": "A declaration of planned work ends after this time at the latest.",
    "repair.scope": (
        "What a lost zone holds: the repair of its own losses (zone), or all repair (cluster)."
    ),
    "repair.resume": (
        "Who ends a hold when the zone is back: the zone watch (automatic) or a person (manual)."
    ),
    "repair.onZoneLoss": (
        "What becomes of a zone that stays away: it is held until a person releases it (hold), "
        "or repaired after a time (repairAfter)."
    ),
    "repair.after": "With repairAfter: the repair begins after the zone was held for so long.",
    "repair.remindEvery": "An alert that stands is told again so often.",
    "repair.bookieRecoveryDelay": (
        "The ledgers of a lost bookie are not repaired before it was missing for so long."
    ),
    "repair.openLedgerGrace": (
        "A writer has so long to replace a lost bookie before its ledger is fenced and repaired."
    ),
    "repair.abandonedAfter": (
        "An open ledger is closed when its writer's process had no session for so long, and the "
        "ledger does not grow. 0s: never."
    ),
    "repair.bytesPerSecond": "Each autorecovery process copies at most so much. 0: no limit.",
    "repair.respread": (
        "If true, copies are moved so that ledgers keep the rules of placement again."
    ),
    "repair.respreadBytesPerSecond": (
        "Moving copies and reading them for checks takes at most so much, for each process. 0: "
        "no limit."
    ),
    "repair.checks.bookies": "All ledgers are listed again so often.",
    "repair.checks.placement": "Ledgers that could be spread better are looked for so often.",
    "repair.checks.replicas": "Every copy of every entry is read and compared so often.",
}
