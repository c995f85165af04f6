"""Candidates for the writing of a log, and a wish to hand the log over. Pure.

    <root>.zonekeeper/standby/…/<name>/candidate.<candidate>    ephemeral; "…/<name>" as in ``logs``
        {"address":"10.0.0.7:70","candidacy":"<32 digits>","log":"<32 digits>","zone":"a",
         "zones":["a","b"]}
    <root>.zonekeeper/standby/…/<name>/handover                 ephemeral: of the program that asks
        {"from":"<32 digits>","log":"<32 digits>","to":"<32 digits>","token":"…",
         "closingMs":12,"openingMs":90}

A *candidacy* is one life of a candidate: a process that starts again under the same name is another
one. ``closingMs`` stands there once the writer has given the log back, and ``openingMs`` once the
next one writes. Both are durations on the clocks of the processes that took them. Neither node
decides who may write: only the claims in the log's record do.

Fields that this version does not know are kept.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.log_record import ADDRESS_LENGTH_MAX
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.troubles import Refusal

CANDIDATE_NAME_LENGTH_MAX: Final = 100
#: Of one log.
CANDIDATES_MAX: Final = 100
#: In a candidate's list.
ZONES_MAX: Final = 100

#: The name of the node of a handover.
HANDOVER: Final = "handover"
_NODE: Final = "candidate."
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_ID: Final = re.compile("[0-9a-f]{32}")
_OF_A_CANDIDATE: Final = frozenset({"address", "candidacy", "log", "zone", "zones"})
_OF_A_HANDOVER: Final = frozenset({"closingMs", "from", "log", "openingMs", "to", "token"})


class BadCandidateError(Refusal, ValueError):
    """No candidate can be so; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateMark:
    """A candidate, as it stands beside its log."""

    #: The id of this life of the candidate.
    candidacy: str
    #: The id of the log's incarnation.
    log_id: str
    zone: ZoneName
    #: The zones whose candidates may write, the most preferred one first.
    zones: tuple[ZoneName, ...]
    #: What the candidate says of how it is reached; nothing is decided by it.
    address: str = ""
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverMark:
    """The wish that one candidate gives a log to another."""

    #: The id of the log's incarnation.
    log_id: str
    #: The candidacies of the writer and of the next one.
    giver: str
    taker: str
    #: Drawn for this wish.
    token: str
    #: From the last append that the writer took until it had closed the log; None: it has not.
    closing_ms: int | None = None
    #: From then until the next one wrote, on the clock of that one; None: it does not write yet.
    opening_ms: int | None = None
    #: The fields that this version does not know, as JSON; they are written back unchanged.
    unknown: str = "{}"


def check_name(name: str) -> None:
    """Refuse a text that cannot be the name of a candidate."""
    if not _NAME.fullmatch(name) or len(name) > CANDIDATE_NAME_LENGTH_MAX:
        raise BadCandidateError(
            f"{name[:CANDIDATE_NAME_LENGTH_MAX]!r} cannot be a candidate's name: it has letters, "
            "digits and . _ -, begins with a letter, a digit or _, and has at most "
            f"{CANDIDATE_NAME_LENGTH_MAX} characters"
        )


def zone_of(text: str) -> ZoneName:
    """Read the name of a zone; raises ``BadCandidateError``."""
    try:
        return locations.zone_name(text)
    except ValueError as error:
        raise BadCandidateError(str(error)) from error


def check(mark: CandidateMark) -> None:
    """Refuse a candidate that could never write, or that no program could read."""
    zones = mark.zones
    if not zones or len(zones) > ZONES_MAX or len(set(zones)) < len(zones):
        raise BadCandidateError(
            f"a list of {len(zones)} zones: it names each zone once, at least one and at most "
            f"{ZONES_MAX}"
        )
    if mark.zone not in zones:
        raise BadCandidateError(
            f"a candidate in zone {mark.zone}, which is not in its list of zones "
            f"({', '.join(zones)}): it would never write; add the zone, or name another one"
        )
    if len(mark.address) > ADDRESS_LENGTH_MAX:
        raise BadCandidateError(
            f"an address of {len(mark.address)} characters; the limit is {ADDRESS_LENGTH_MAX}"
        )


def node(name: str) -> str:
    """Give the name of a candidate's node; raises ``BadCandidateError``."""
    check_name(name)
    return f"{_NODE}{name}"


def name_of(child: str) -> str | None:
    """Give the candidate that a node of the folder is; None: it is something else."""
    name = child.removeprefix(_NODE)
    return name if child.startswith(_NODE) and _NAME.fullmatch(name) else None


def closed(before: HandoverMark, closing_ms: int) -> HandoverMark:
    """Note that the writer has closed the log."""
    return replace(before, closing_ms=closing_ms)


def opened(before: HandoverMark, opening_ms: int) -> HandoverMark:
    """Note that the next one writes."""
    return replace(before, opening_ms=opening_ms)


def render(mark: CandidateMark, instance: str) -> bytes:
    """Write a candidate."""
    plain: dict[str, Plain] = json.loads(mark.unknown)
    plain |= {
        "address": mark.address,
        "candidacy": mark.candidacy,
        "log": mark.log_id,
        "zone": mark.zone,
        "zones": list(mark.zones),
    }
    return records.render(plain, instance)


def parse(raw: bytes, instance: str) -> CandidateMark:
    """Read a candidate; raises ``UnreadableError`` or ``ForeignRecordError``."""
    data = records.parse(raw, instance)
    address, zones = records.text(data, "address"), data.get("zones")
    if len(address) > ADDRESS_LENGTH_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"an address of {len(address)} characters")
    names = [one for one in zones if isinstance(one, str)] if isinstance(zones, list) else []
    if not names or names != zones:
        raise MalformedError(Flaw.WRONG_TYPE, "zones must be a list of at least one name")
    if len(names) > ZONES_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"a list of {len(names)} zones")
    return CandidateMark(
        candidacy=_id(data, "candidacy"),
        log_id=_id(data, "log"),
        zone=ZoneName(records.text(data, "zone")),
        zones=tuple(map(ZoneName, names)),
        address=address,
        unknown=records.unknown(data, _OF_A_CANDIDATE),
    )


def render_handover(mark: HandoverMark, instance: str) -> bytes:
    """Write a handover."""
    plain: dict[str, Plain] = json.loads(mark.unknown)
    plain |= {"from": mark.giver, "log": mark.log_id, "to": mark.taker, "token": mark.token}
    if mark.closing_ms is not None:
        plain["closingMs"] = mark.closing_ms
    if mark.opening_ms is not None:
        plain["openingMs"] = mark.opening_ms
    return records.render(plain, instance)


def parse_handover(raw: bytes, instance: str) -> HandoverMark:
    """Read a handover; raises ``UnreadableError`` or ``ForeignRecordError``."""
    data = records.parse(raw, instance)
    return HandoverMark(
        log_id=_id(data, "log"),
        giver=_id(data, "from"),
        taker=_id(data, "to"),
        token=records.text(data, "token"),
        closing_ms=records.number(data, "closingMs") if "closingMs" in data else None,
        opening_ms=records.number(data, "openingMs") if "openingMs" in data else None,
        unknown=records.unknown(data, _OF_A_HANDOVER),
    )


def _id(data: Mapping[str, Plain], key: str) -> str:
    found = records.text(data, key)
    if not _ID.fullmatch(found):
        raise MalformedError(Flaw.BAD_TEXT, f"{key} is {found[:40]!r}, and not 32 digits")
    return found
