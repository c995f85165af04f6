"""Sees what is true of zones, gates and repairs, whatever auditors and replicators think of it.

It knows the metadata service's tree, every disk, and each frame that arrives at a bookie; and it
notes for the checker what was copied for which bookie, what was swapped, which permission changed,
and how long whatever ought to end has lasted. A zone is *failing* when it is at or under its low
mark by its registrations; it is *well* when nothing of it is missing.

A frame for a closed ledger that comes to a bookie outside the ledger's ensemble is a repair's. It
is for the members that are missing then.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.simulation import history as seen
from tests.simulation.actors import Observer
from tests.simulation.machine import Machine
from tests.simulation.repair_rules import FAILING_IS_KNOWN_MS, HELD_IS_KNOWN_MS
from tests.simulation.scenarios import ZONES
from tests.simulation.surroundings import INSTANCE, ROOT, Surroundings
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.zones.gate import Gate, Permission
from zonekeeper.wire.formats.frames import Flags, Frame

_OURS: Final = ROOT + ".zonekeeper/"
_ZONES: Final = _OURS + "zones/"
_CLUSTER: Final = _OURS + "cluster"
_LOOK_EVERY_MS: Final = 250
#: The cluster's gate stands among those of the zones.
_ALL: Final = "cluster"


@dataclass(slots=True)
class _Zone:
    gate: Gate | None = None
    held_since_ms: int | None = None
    failing_since_ms: int | None = None
    #: It was well once: before, it is not there yet.
    stood: bool = False
    #: Carriers that came too late for its losses since it is held, by target and ledger.
    carriers: Counter[tuple[BookieId, LedgerId]] = field(default_factory=Counter)

    @property
    def permits(self) -> bool:
        return self.gate is not None and self.gate.permits


class Gates:
    """What is true of the zones of one world."""

    def __init__(
        self, around: Surroundings, observer: Observer, machines: Mapping[BookieId, Machine]
    ) -> None:
        self._around = around
        self._observer = observer
        self._machines = machines
        self._zones = {zone: _Zone() for zone in (*ZONES, _ALL)}
        self._there: frozenset[BookieId] = frozenset()
        self._there_since: dict[BookieId, int] = {}
        self._waits: dict[tuple[str, str], int] = {}
        self._watching = True
        self._moved = True
        #: Auditor, zone watch or replicators were last troubled then.
        self._troubled_ms = 0
        self.outages = 0
        self.copied_bytes: Counter[str] = Counter()

    def watch(self) -> None:
        """Look again and again, until everything heals."""
        for machine in self._machines.values():
            machine.on_frame = self.arrived
        self._look()

    def stop(self) -> None:
        """Tell of what has not ended yet, and look no more."""
        self._look_at_waits()
        for what, who in list(self._waits):
            self._end(what, who)
        self._watching = False

    def disturb(self, until_ms: int) -> None:
        """Note that autorecovery is troubled until then: nothing has to be done meanwhile."""
        self._troubled_ms = max(self._troubled_ms, until_ms)

    # ── what changes in the store ──

    def changed(self, path: str) -> None:
        """Hear of a node that is another one now."""
        if path.startswith((_OURS + "bookies/", _OURS + "maintenance/", f"{ROOT}/available/")):
            self._moved = True
            self._look_at_zones()
        elif path.startswith(_ZONES):
            self._look_at_gate(path.removeprefix(_ZONES), path)
        elif path == _CLUSTER:
            self._look_at_gate(_ALL, path)

    def _look_at_gate(self, zone: str, path: str) -> None:
        known = self._zones[zone]
        before = known.gate
        raw = self._value(path)
        if raw is None:
            gate = None
        else:
            codec = zone_store.CLUSTER if zone == _ALL else zone_store.ZONE
            gate = codec.parse(records.parse(raw, INSTANCE)).gate
        known.gate = gate
        now_ms = self._around.now_ms()
        if gate is None or gate.permits:
            known.held_since_ms = None
        elif known.held_since_ms is None:
            known.held_since_ms = now_ms
            known.carriers.clear()
        if before is None or gate is None or before.permission is gate.permission:
            return
        failing_ms = self._failing_ms(zone)
        self._around.note(
            seen.Permitted(
                zone=zone,
                before=before.permission,
                after=gate.permission,
                by=gate.set_by,
                failing_ms=failing_ms,
                held_ms=gate.held_ms,
            )
        )

    def _look_at_zones(self) -> None:
        now_ms = self._around.now_ms()
        self._there = frozenset(
            BookieId(name)
            for name in (*self._names("available"), *self._names("available/readonly"))
        )
        for bookie in self._machines:
            if bookie in self._there:
                self._there_since.setdefault(bookie, now_ms)
            else:
                self._there_since.pop(bookie, None)
        for name in ZONES:
            counted = self._counted(name)
            lost = [bookie for bookie in counted if bookie not in self._there]
            zone = self._zones[name]
            if len(lost) < 2 or 2 * len(lost) < len(counted):
                zone.failing_since_ms = None
                zone.stood |= not lost
            elif zone.failing_since_ms is None and zone.stood:
                zone.failing_since_ms = now_ms
                self.outages += 1

    def _counted(self, zone: str) -> list[BookieId]:
        """Give a zone's bookies, without those that are not counted now."""
        return [
            bookie
            for bookie in self._machines
            if bookie.startswith(f"bk-{zone}-")
            and not self._written_off(bookie)
            and not self._in_maintenance(bookie)
        ]

    def _written_off(self, bookie: BookieId) -> bool:
        raw = self._value(f"{_OURS}bookies/{bookie}")
        return raw is not None and bookie_records.parse(raw, INSTANCE).written_off is not None

    def _in_maintenance(self, bookie: BookieId) -> bool:
        unit = self._machines[bookie].location
        return self._value(f"{_OURS}maintenance/{unit.zone}.{unit.upgrade_domain}") is not None

    # ── what arrives and what is swapped ──

    def arrived(self, bookie: BookieId, frame: Frame) -> None:
        """Hear of a frame at a bookie."""
        ledger = self._observer.ledgers.get(frame.ledger_id)
        if Flags.RECOVERY not in frame.flags or ledger is None or not ledger.is_closed:
            return
        fragment = ledger.fragment_of(frame.first)
        if bookie in fragment.ensemble:
            self.copied_bytes["into holes"] += len(frame.packets)
            return
        missing = [member for member in fragment.ensemble if not self._is_back(member)]
        zones = sorted({_zone_of(member) for member in missing})
        if not zones:
            self.copied_bytes["nobody is missing"] += len(frame.packets)
            return
        now_ms = self._around.now_ms()
        held_ms = min(self._held_ms(zone, now_ms) for zone in zones)
        unreleased_ms = min(
            0 if self._released(zone) or not self._counts(missing, zone) else self._failing_ms(zone)
            for zone in zones
        )
        # One that comes too late may have been in flight; it is the second that tells.
        late = held_ms > HELD_IS_KNOWN_MS or unreleased_ms > FAILING_IS_KNOWN_MS
        carriers = max(self._count(zone, bookie, frame.ledger_id) for zone in zones) if late else 0
        self.copied_bytes[self._why(zones, held_ms)] += len(frame.packets)
        self._around.note(
            seen.Copied(
                ledger=frame.ledger_id,
                bookie=bookie,
                zones=tuple(zones),
                size_bytes=len(frame.packets),
                held_ms=held_ms,
                failing_ms=unreleased_ms,
                carriers=carriers,
            )
        )

    def _is_back(self, bookie: BookieId) -> bool:
        """Is it there, and does every process know that by now?"""
        since_ms = self._there_since.get(bookie)
        return since_ms is not None and self._around.now_ms() - since_ms > HELD_IS_KNOWN_MS

    def _counts(self, missing: Sequence[BookieId], zone: str) -> bool:
        counted = self._counted(zone)
        return any(member in counted for member in missing if _zone_of(member) == zone)

    def _count(self, zone: str, bookie: BookieId, ledger: LedgerId) -> int:
        carriers = self._zones[zone].carriers
        carriers[bookie, ledger] += 1
        return carriers[bookie, ledger]

    def _why(self, zones: Sequence[str], held_ms: int) -> str:
        if held_ms:
            return "in flight when it was held"
        gates = [self._zones[zone].gate for zone in zones]
        released = [one for one in gates if one and one.permission is Permission.RELEASED]
        if not released:
            return "lost elsewhere"
        return "released by the rule" if released[0].set_by == "repairAfter" else "released"

    def swapped(self, ledger_id: LedgerId, before: LedgerMetadata, after: LedgerMetadata) -> None:
        """Hear of a closed ledger's new metadata."""
        now_ms = self._around.now_ms()
        for old, new in zip(before.fragments, after.fragments, strict=True):
            leaving = [one for one in old.ensemble if one not in new.ensemble]
            if not leaving:
                continue
            stayed = [one for one in old.ensemble if self._is_back(one)]
            self._around.note(
                seen.Moved(
                    ledger=ledger_id,
                    bookies=tuple(leaving),
                    held_ms=min(self._held_ms(_zone_of(one), now_ms) for one in leaving),
                    lacking=self._lacking(ledger_id, after, old, new),
                    zones_before=len({_zone_of(one) for one in stayed}),
                    zones_after=len({_zone_of(one) for one in new.ensemble}),
                    there_ms=min(now_ms - self._there_since.get(one, now_ms) for one in leaving),
                )
            )

    def _lacking(
        self, ledger_id: LedgerId, ledger: LedgerMetadata, old: Fragment, new: Fragment
    ) -> int:
        """Count entries that newcomers should have, and have not."""
        firsts = [one.first_entry for one in ledger.fragments]
        at = firsts.index(new.first_entry)
        end = firsts[at + 1] if at + 1 < len(firsts) else ledger.last_entry + 1
        lacking, size = 0, ledger.ensemble_size
        for entry in range(new.first_entry, end):
            members = {new.ensemble[(entry + step) % size] for step in range(ledger.write_quorum)}
            lacking += sum(
                not self._machines[one].holds(ledger_id, EntryId(entry))
                for one in sorted(members - set(old.ensemble))
            )
        return lacking

    # ── what ought to end ──

    def _look(self) -> None:
        if not self._watching:
            return
        self._look_at_waits()
        self._around.later(_LOOK_EVERY_MS, self._look)

    def _look_at_waits(self) -> None:
        calm = self._around.now_ms() >= self._troubled_ms
        well = {zone: set(self._counted(zone)) <= self._there for zone in ZONES}
        for name, zone in self._zones.items():
            fine = all(well.values()) if name == _ALL else well[name]
            held = zone.gate is not None and not zone.gate.permits
            self._wait("hold of what is well", name, lasts=calm and fine and held, over=not held)
            rule = self._around.scenario.repair_after_ms
            failing = zone.failing_since_ms is not None and rule is not None
            self._wait("hold by the rule", name, lasts=calm and failing and held, over=not held)
        open_cluster = self._zones[_ALL].permits and len(self._there) >= _LEFT_MIN
        for bookie in self._machines:
            lost = bookie not in self._there and not self._in_maintenance(bookie)
            may = calm and lost and open_cluster and self._zones[_zone_of(bookie)].permits
            may &= not self._around.scenario.repair_bytes_per_second  # that has no bound
            key = ("repair", bookie)
            if not may:
                self._waits.pop(key, None)
            elif key in self._waits or self._named(bookie):
                self._wait("repair", bookie, lasts=True, over=not self._named(bookie))

    def _wait(self, what: str, who: str, *, lasts: bool, over: bool) -> None:
        if over and (what, who) in self._waits:
            self._end(what, who)
        elif lasts:
            self._waits.setdefault((what, who), self._around.now_ms())
        else:
            self._waits.pop((what, who), None)

    def _end(self, what: str, who: str) -> None:
        for_ms = self._around.now_ms() - self._waits.pop((what, who))
        self._around.note(seen.Waited(what=what, who=who, for_ms=for_ms))

    def _named(self, bookie: BookieId) -> bool:
        """Does a ledger name it, that can be repaired?"""
        return any(
            self._repairable(ledger_id, ledger, bookie)
            for ledger_id, ledger in self._observer.ledgers.items()
        )

    def _repairable(self, ledger_id: LedgerId, ledger: LedgerMetadata, bookie: BookieId) -> bool:
        """Is it named, and is each entry of its fragments somewhere to be had?"""
        concerned = [part for part in ledger.fragments if bookie in part.ensemble]
        if not ledger.is_closed:
            return False
        for part in concerned:
            serving = [
                one for one in part.ensemble if one in self._there and self._machines[one].serving
            ]
            firsts = [
                one.first_entry for one in ledger.fragments if one.first_entry > part.first_entry
            ]
            end = firsts[0] if firsts else ledger.last_entry + 1
            for entry in range(part.first_entry, end):
                if not any(self._machines[one].holds(ledger_id, EntryId(entry)) for one in serving):
                    return False
        return bool(concerned)

    # ── small things ──

    def _released(self, zone: str) -> bool:
        gate = self._zones[zone].gate
        return gate is not None and gate.permission is Permission.RELEASED

    def _held_ms(self, zone: str, now_ms: int) -> int:
        since = [self._zones[name].held_since_ms for name in (zone, _ALL)]
        return max((now_ms - one for one in since if one is not None), default=0)

    def _failing_ms(self, zone: str) -> int:
        known = [self._zones[zone]] if zone != _ALL else []
        return max(
            (
                self._around.now_ms() - one.failing_since_ms
                for one in known
                if one.failing_since_ms is not None
            ),
            default=0,
        )

    def _value(self, path: str) -> bytes | None:
        server = self._around.server
        node = server.node(path, server.last_change_id)
        return node.value if node is not None and node.value else None

    def _names(self, directory: str) -> Sequence[str]:
        server = self._around.server
        found = server.names(f"{ROOT}/{directory}", server.last_change_id) or ()
        return [name for name in found if name != "readonly"]


#: With fewer bookies there may be no room for an ensemble.
_LEFT_MIN: Final = 5


def _zone_of(bookie: BookieId) -> str:
    return bookie.split("-")[1]
