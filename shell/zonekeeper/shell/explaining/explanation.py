"""The report about a cluster file: every judgement of ``placement``, gathered.

Nothing is decided here. The selector builds the example ensemble from the file's bookies and a
fixed seed, so that the same file always gives the same report.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.candidates import EnsembleRequest
from zonekeeper.placement.ensembles.failures import NotEnoughBookies
from zonekeeper.placement.ensembles.selector import Concession
from zonekeeper.placement.policy import gating, legality, rules_data
from zonekeeper.placement.promises import cost, headroom, outages, survivability
from zonekeeper.placement.promises.outages import OutageOutcome, Rebuilding
from zonekeeper.placement.promises.survivability import Answer, LossRow, WriteSet
from zonekeeper.shell.explaining.cluster_file import ClusterFile

_SEED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An ensemble as placement builds it, and the losses that it survives."""

    choice: selector.Choice
    places: tuple[Location | None, ...]
    rows: tuple[LossRow, ...]
    rebuilding: tuple[Rebuilding, ...]
    crossings: cost.Crossings
    bill: tuple[cost.BillLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """The losses that every legal write set survives, and how close together its copies may be."""

    zones: int
    #: The largest number of copies of an entry in one zone.
    together: int
    rows: tuple[LossRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The contents of the report, before it has a form."""

    cluster: ClusterFile
    verdict: legality.Legality
    #: Why a legal configuration has no ensemble; empty: it has one, or is not legal.
    impossible: str = ""
    example: Example | None = None
    least: Least | None = None
    #: The zones whose loss is repaired like that of single bookies: it is never held.
    never_gated: tuple[ZoneName, ...] = ()
    #: One answer for each zone; empty if the file says nothing of storage.
    room: tuple[headroom.Headroom, ...] = ()

    @property
    def usable(self) -> bool:
        """Can ledgers be created?"""
        return self.verdict.legal and not self.impossible


def explain(cluster: ClusterFile) -> Explanation:
    """Judge a cluster file."""
    policy = cluster.policy
    verdict = legality.judge(policy.quorums, policy.placement)
    sizes = Counter(one.location.zone for one in cluster.topology if one.location)
    ungated = gating.judge(policy.zone_watch, sizes)
    verdict = replace(verdict, warnings=(*verdict.warnings, *ungated))
    storage = cluster.storage
    room = headroom.judge(storage.zones, min_free=storage.min_free) if storage else ()
    if not verdict.legal:
        return Explanation(cluster=cluster, verdict=verdict, room=room)
    try:
        example = _example(cluster)
    except NotEnoughBookies as failure:
        return Explanation(cluster=cluster, verdict=verdict, impossible=str(failure), room=room)
    return Explanation(
        cluster=cluster,
        verdict=verdict,
        example=example,
        least=_least(cluster),
        never_gated=gating.never_gated(policy.zone_watch, sizes),
        room=room,
    )


def _example(cluster: ClusterFile) -> Example:
    policy, topology = cluster.policy, cluster.topology
    chance = random.Random(_SEED)  # noqa: S311 not secret: the same file, the same report
    request = EnsembleRequest(topology=topology, quorums=policy.quorums, rules=policy.placement)
    choice = selector.choose(request, chance)
    places = tuple(topology.location(bookie) for bookie in choice.ensemble)
    zones = [place.zone if place else None for place in places]
    crossings = cost.of_ensemble(
        policy.quorums, zones, policy.placement.zones, client=cluster.client
    )
    copies = Fraction(policy.quorums.write, len(policy.placement.zones))
    traffic = cluster.traffic
    return Example(
        choice=choice,
        places=places,
        rows=survivability.of_ensemble(policy.quorums, places),
        rebuilding=_rebuilding(request, choice.ensemble, chance),
        crossings=crossings,
        bill=cost.bill(crossings, traffic, copies, cluster.prices) if traffic else (),
    )


def _rebuilding(
    request: EnsembleRequest, ensemble: Sequence[BookieId], chance: random.Random
) -> tuple[Rebuilding, ...]:
    """Try every loss: first among few bookies, then among all if that leaves a doubt.

    An ensemble of E takes at most E members of one location, beside E that leave it and one that is
    lost. More bookies of a location change no level. But the reason of a failure counts them. So
    all bookies are looked at if something cannot be built.
    """
    every, some = request.topology, _enough(request, ensemble)
    found = outages.of_ensemble(request.quorums, request.rules, some, ensemble, chance)
    holds = all(one.changed.holds is one.new.holds is Holds.YES for one in found)
    if holds or len(some) == len(every):
        return found
    return outages.of_ensemble(request.quorums, request.rules, every, ensemble, chance)


def _enough(request: EnsembleRequest, ensemble: Sequence[BookieId]) -> Topology:
    most, taken = 2 * request.quorums.ensemble + 1, Counter[Location | None]()
    members, kept = frozenset(ensemble), []
    for bookie in request.topology:
        taken[bookie.location] += 1
        if bookie.id in members or taken[bookie.location] <= most:
            kept.append(bookie)
    return Topology(kept)


def _least(cluster: ClusterFile) -> Least | None:
    policy = cluster.policy
    bookies = Counter(bookie.location for bookie in cluster.topology if bookie.location)
    sets = survivability.least_spread(policy.quorums, policy.placement, bookies)
    if not sets:
        return None
    return Least(
        zones=min(len(_by_zone(members)) for members in sets),
        together=max(max(_by_zone(members).values()) for members in sets),
        rows=survivability.of_write_sets(policy.quorums, sets),
    )


def _by_zone(members: WriteSet) -> Counter[str]:
    return Counter(place.zone for place in members if place)


def plain(explanation: Explanation, *, show_policy: bool) -> dict[str, Plain]:
    """Give the report as plain data."""
    policy = explanation.cluster.policy
    data: dict[str, Plain] = {
        "usable": explanation.usable,
        "refusals": [_finding(finding) for finding in explanation.verdict.refusals],
        "warnings": [_finding(finding) for finding in explanation.verdict.warnings],
        "impossible": explanation.impossible or None,
    }
    if explanation.example:
        data |= _example_plain(explanation.example, explanation.cluster)
    if explanation.least:
        data["least"] = {
            "zones": explanation.least.zones,
            "copiesInOneZone": explanation.least.together,
            "survives": {row.loss: _row(row) for row in explanation.least.rows},
        }
    data["neverGated"] = list(explanation.never_gated)
    if explanation.cluster.storage:
        data["headroom"] = {answer.zone: _room(answer) for answer in explanation.room}
    if show_policy:
        data["policy"] = rules_data.rules(policy)
    return data


def _finding(finding: legality.BrokenRule) -> Plain:
    return {"code": str(finding.code), "reason": finding.reason, "example": finding.example}


def _example_plain(example: Example, cluster: ClusterFile) -> dict[str, Plain]:
    built = {found.loss: found for found in example.rebuilding}
    crossings = example.crossings
    data: dict[str, Plain] = {
        "ensemble": {
            "members": [
                {"bookie": bookie, "location": str(place) if place else None}
                for bookie, place in zip(example.choice.ensemble, example.places, strict=True)
            ],
            "level": example.choice.judgement.level.name,
            "reasons": list(example.choice.judgement.reasons),
            "concessions": [
                made.value for made in Concession if made in example.choice.concessions
            ],
            "survives": {
                row.loss: {
                    **_row(row),
                    "changed": _outcome(built[row.loss].changed),
                    "new": _outcome(built[row.loss].new),
                }
                for row in example.rows
            },
        },
        "crossings": {
            "written": float(crossings.written),
            "readNear": float(crossings.read_near),
            "readAnywhere": float(crossings.read_anywhere),
            "hedged": float(crossings.hedged),
            "hop": float(crossings.hop),
            "repairBookie": float(crossings.repair_bookie),
            "repairZone": float(crossings.repair_zone),
            "respread": float(crossings.respread),
        },
    }
    if cluster.traffic:
        data["bill"] = {line.flow.name: _line(line) for line in example.bill}
    if cluster.prices:
        data["prices"] = {
            "perGB": float(cluster.prices.per_gb),
            "currency": cluster.prices.currency,
            "asOf": cluster.prices.as_of,
            "source": cluster.prices.source,
        }
    return data


def _row(row: LossRow) -> dict[str, Plain]:
    return {
        "reads": _answer(row.reads),
        "recovery": _answer(row.recovery),
        "acks": _answer(row.acks),
    }


def _answer(answer: Answer) -> Plain:
    return {
        "holds": answer.holds.word,
        "left": answer.left,
        "needed": answer.needed,
        "why": answer.why,
    }


def _outcome(outcome: OutageOutcome) -> Plain:
    level = outcome.level.name if outcome.level else None
    return {"holds": outcome.holds.word, "level": level, "why": outcome.why}


def _line(line: cost.BillLine) -> Plain:
    money = None if line.money is None else round(float(line.money), 2)
    return {"crossingBytes": round(line.crossing_bytes), "money": money}


def _room(answer: headroom.Headroom) -> Plain:
    return {
        "room": answer.room.value,
        "neededBytes": answer.needed_bytes,
        "freeBytes": {str(zone): free for zone, free in answer.free_bytes.items()},
        "why": answer.why,
    }
