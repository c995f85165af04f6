"""The file that ``placement explain`` reads: a cluster as it is, or as it might be.

``policy`` has the fields of a BookieCluster's ``spec.policy``, with the same defaults. ``bookies``
gives the bookies of each zone. A number is shared out over the upgrade domains as ordinals are;
otherwise there is a number for each upgrade domain. ``storage``, ``traffic`` and ``prices`` are
optional; each adds a part to the report. All faults of the file are reported at once.
"""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol, TypeVar

from zonekeeper.placement.base import fields, upgrade_domains
from zonekeeper.placement.base.fields import InvalidFieldsError, Problem
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Topology
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.promises import headroom
from zonekeeper.placement.promises.cost import Prices, Traffic

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

ZONE_BOOKIES_MAX: Final = 10_000
_COUNT: Final = fields.Whole(0, ZONE_BOOKIES_MAX)
_SHARE: Final = fields.Number(0, 1)
_SIZE: Final = fields.Size(1 << 60)
_SECTIONS: Final = ("policy", "bookies", "storage", "traffic", "prices")


class _Kind(Protocol[_T_co]):
    def read(self, path: str, value: object) -> _T_co: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneStorage:
    """The capacity and the use of zones, and how much has to stay free."""

    zones: Mapping[ZoneName, headroom.Usage]
    min_free: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """The contents of the file."""

    policy: Policy
    topology: Topology
    storage: ZoneStorage | None = None
    traffic: Traffic | None = None
    #: The zone of the writers and readers; None: they are spread evenly over all zones.
    client: ZoneName | None = None
    prices: Prices | None = None


def read(data: object) -> ClusterFile:
    """Read the file's data; raises ``fields.InvalidFieldsError`` with all faults."""
    problems: list[Problem] = []
    top = _Section("", data, _SECTIONS, problems)
    policy: Policy | None = None
    try:
        policy = rules_data.from_rules(top.values.get("policy", {}))
    except InvalidFieldsError as refused:
        problems += refused.problems
    zones = None if policy is None else policy.placement.zones
    domains = None if policy is None else policy.placement.upgrade_domains
    topology = _topology(top.section("bookies", zones), zones, domains)
    storage = _storage(top, zones) if "storage" in top.values else None
    traffic, client = _traffic(top, zones) if "traffic" in top.values else (None, None)
    prices = _prices(top) if "prices" in top.values else None
    if problems:
        raise InvalidFieldsError(problems)
    assert policy is not None
    return ClusterFile(
        policy=policy,
        topology=topology,
        storage=storage,
        traffic=traffic,
        client=client,
        prices=prices,
    )


class _Section:
    """The fields of one mapping, read one by one; faults are collected."""

    def __init__(
        self, path: str, data: object, known: "tuple[str, ...] | None", problems: list[Problem]
    ) -> None:
        """Open a mapping; ``known`` are the fields that it may have, None if they are not known."""
        self.path, self.problems = path, problems
        self.values: dict[str, object] = {}
        try:
            self.values = fields.mapping(path or "the file", data)
        except InvalidFieldsError as refused:
            problems += refused.problems
        if known is not None:
            problems += [
                fields.unknown(fields.below(path, name), value, known)
                for name, value in self.values.items()
                if name not in known
            ]

    def section(self, name: str, known: "tuple[str, ...] | None") -> "_Section":
        path = fields.below(self.path, name)
        return _Section(path, self.values.get(name, {}), known, self.problems)

    def missing(self, name: str, fix: str) -> None:
        path = fields.below(self.path, name)
        self.problems.append(Problem(path, "missing", "is required", fix))

    def take(self, name: str, kind: _Kind[_T], default: _T, *, required: str = "") -> _T:
        """Read a field; ``required``: it must be there, and this says what to do if it is not."""
        if name not in self.values:
            if required:
                self.missing(name, required)
            return default
        try:
            return kind.read(fields.below(self.path, name), self.values[name])
        except InvalidFieldsError as refused:
            self.problems += refused.problems
            return default


def _topology(
    section: _Section, zones: "tuple[ZoneName, ...] | None", domains: int | None
) -> Topology:
    bookies: list[Bookie] = []
    most = domains or rules_data.UPGRADE_DOMAINS_MAX
    for zone in _zones(section, zones):
        if zone not in section.values:
            section.missing(zone, "say how many bookies stand there, 0 if none")
        elif isinstance(section.values[zone], dict):
            bookies += _by_domain(section, zone, most)
        else:
            formula = upgrade_domains.RoundRobin(upgrade_domains=most)
            bookies += [
                _bookie(zone, ordinal, upgrade_domains.of_ordinal(ordinal, formula))
                for ordinal in range(section.take(zone, _COUNT, 0))
            ]
    return Topology(bookies)


def _zones(section: _Section, zones: "tuple[ZoneName, ...] | None") -> Iterable[ZoneName]:
    """Give the zones to read: the policy's, or if the policy is wrong, those of the file."""
    return map(ZoneName, section.values) if zones is None else zones


def _by_domain(section: _Section, zone: ZoneName, domains: int) -> list[Bookie]:
    formula = upgrade_domains.RoundRobin(upgrade_domains=domains)
    known = tuple(upgrade_domains.of_ordinal(number, formula) for number in range(domains))
    counts = section.section(zone, known)
    placed = [name for name in known for _ in range(counts.take(name, _COUNT, 0))]
    return [_bookie(zone, ordinal, domain) for ordinal, domain in enumerate(placed)]


def _bookie(zone: ZoneName, ordinal: int, domain: UpgradeDomain) -> Bookie:
    return Bookie(id=BookieId(f"{zone}-{ordinal}"), location=Location(zone, domain))


def _storage(top: _Section, zones: "tuple[ZoneName, ...] | None") -> ZoneStorage:
    section = top.section("storage", ("minFree", "zones"))
    given = section.section("zones", zones)
    usage = {}
    for zone in _zones(given, zones):
        one = given.section(zone, ("capacity", "used"))
        usage[zone] = headroom.Usage(
            capacity_bytes=one.take("capacity", _SIZE, None),
            used_bytes=one.take("used", _SIZE, None),
        )
    share = section.take("minFree", fields.Number(0, 0.9), 0.1)
    return ZoneStorage(zones=usage, min_free=_exact(share))


def _traffic(
    top: _Section, zones: "tuple[ZoneName, ...] | None"
) -> tuple[Traffic, ZoneName | None]:
    known = ("written", "read", "stored", "spilled", "hedged", "clientZone")
    section = top.section("traffic", known)
    client = section.values.get("clientZone")
    if client is not None and zones is not None and client not in zones:
        rule = f"must be one of {', '.join(zones)}"
        path = fields.below(section.path, "clientZone")
        section.problems.append(
            Problem(path, fields.shown(client), rule, "or leave it out: evenly in all zones")
        )
    traffic = Traffic(
        written_bytes=section.take("written", _SIZE, 0),
        read_bytes=section.take("read", _SIZE, 0),
        stored_bytes=section.take("stored", _SIZE, 0),
        spilled=_exact(section.take("spilled", _SHARE, 0.0)),
        hedged=_exact(section.take("hedged", _SHARE, 0.0)),
    )
    return traffic, None if client is None else ZoneName(str(client))


def _prices(top: _Section) -> Prices:
    section = top.section("prices", ("perGB", "currency", "asOf", "source"))
    per_gb = section.take(
        "perGB", fields.Number(0, 1_000), 0.0, required="say what a GB between zones costs"
    )
    currency = fields.Text("[A-Z]{3}", "three capital letters", "USD")
    return Prices(
        per_gb=_exact(per_gb),
        currency=section.take("currency", currency, "", required="write for example USD"),
        as_of=section.take("asOf", _Day(), "", required="say on which day it was looked up"),
        source=section.take(
            "source",
            fields.Text(r"[^\x00-\x1f\x7f]{1,200}", "a line of 1 to 200 characters", "our bill"),
            "",
            required="say where it was found",
        ),
    )


class _Day:
    """A day of the calendar, as text."""

    def read(self, path: str, value: object) -> str:
        rule, fix = "must be a day: YYYY-MM-DD", "write for example 2026-01-31"
        if not isinstance(value, str):
            raise fields.refuse(path, value, rule, fix)
        try:
            return datetime.date.fromisoformat(value).isoformat()
        except ValueError:
            raise fields.refuse(path, value, rule, fix) from None


def _exact(number: float) -> Fraction:
    """Give the fraction that was written: 0.1 is one tenth."""
    return Fraction(repr(number))
