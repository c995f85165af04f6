"""A cluster of nine bookies at one moment of a roll, as a turn would see it: pure, and cheap."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tests.operator.plan import small_world
from tests.operator.plan.small_world import INSTANCE, ZONES
from tests.operator.repairing import OURS
from tests.operator.resources import kept, resource, revision_of
from zonekeeper.metadata.bookies.bookie_records import BookieRecord
from zonekeeper.metadata.formats import release_formats
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import STATEFUL_SETS, Json
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.stages import Case
from zonekeeper.operator.roll import memory, order, rolling
from zonekeeper.operator.roll.memory import BegunStep, RollMemory, TakenBookie
from zonekeeper.operator.roll.rolling import RollProgress
from zonekeeper.operator.roots.planned import Declared, WorkFacts
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight import formats_pod
from zonekeeper.operator.sight.formats_pod import FormatsPod
from zonekeeper.operator.sight.ledger_sight import FragmentKinds, LedgerSight
from zonekeeper.operator.sight.observed import Observed, Pod
from zonekeeper.operator.sight.watch_sight import WatchSight
from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RoundRobin
from zonekeeper.placement.zones.gate import Person, Token
from zonekeeper.placement.zones.maintenance import Maintenance

OLD, NEW, THIRD = "zonekeeper:1", "zonekeeper:2", "zonekeeper:3"
OWNER: Final = "operator/logs/log"
TOKEN: Final = Token("t")
#: Wall time of the look.
NOW_MS: Final = 10_000_000
BOOKIES: Final = tuple(BookieId(f"log-{zone}-{number}") for zone in ZONES for number in range(3))


def unit(zone: str, number: int) -> Location:
    return Location(ZoneName(zone), UpgradeDomain(f"ud-{number}"))


def declared(place: Location, *, owner: str = OWNER, lasts_ms: int = 1_000) -> Maintenance:
    person = Person(name=owner, reason="the roll")
    return Maintenance(unit=place, token=TOKEN, declared_by=person, lasts_ms=lasts_ms)


@dataclass(kw_only=True)
class StillCluster:
    """What is there; a test changes it before it asks."""

    #: The image that is asked for.
    asked_for: str = NEW
    #: The image of each zone's template.
    stands: dict[str, str] = field(default_factory=lambda: dict.fromkeys(ZONES, OLD))
    #: The image that each bookie runs.
    runs: dict[BookieId, str] = field(default_factory=lambda: dict.fromkeys(BOOKIES, OLD))
    #: The uid of each pod; without one it is that of the start.
    uids: dict[BookieId, str] = field(default_factory=dict)
    unready: set[BookieId] = field(default_factory=set)
    unregistered: set[BookieId] = field(default_factory=set)
    read_only: set[BookieId] = field(default_factory=set)
    boots: dict[BookieId, int] = field(default_factory=dict)
    #: Images that have answered that they are like this release.
    vetted: set[str] = field(default_factory=lambda: {OLD, NEW, THIRD})
    notes: RollMemory = field(default_factory=RollMemory)
    maintenance: tuple[Maintenance, ...] = ()
    kinds: FragmentKinds = field(default_factory=FragmentKinds)
    watched: WatchSight = field(default_factory=small_world.watched)

    @property
    def wanted(self) -> Desired:
        return _wanted(self.asked_for)

    @property
    def brings(self) -> str:
        """Name what the roll brings."""
        return order.brought(order.zone_sets(self.wanted, self.seen))

    def step(self, *bookies: BookieId, **fields: object) -> BegunStep:
        """Give a step with these bookies, noted before it touched anything."""
        taken = tuple(TakenBookie(bookie=one, uid=f"uid-{one}", boot_epoch=1) for one in bookies)
        bare = BegunStep(unit=_place(bookies[0]), taken=taken, brings=self.brings, begun_ms=NOW_MS)
        return replace(bare, **fields)  # type: ignore[arg-type] # a test names them

    def decide(self) -> RollProgress:
        return rolling.decide(self.wanted, self.seen)

    @property
    def case(self) -> Case:
        return planning.case_of(self.wanted, self.seen)

    @property
    def seen(self) -> Observed:
        item = _resource(self.asked_for)
        item |= {"status": {"instance": INSTANCE, "roll": memory.plain(self.notes)}}
        return Observed(
            resource=item,
            owned=self._owned(),
            pods=tuple(map(self._pod, BOOKIES)),
            claims={},
            root=self._root(),
            kept=kept(item),
            asked=tuple(self._asked()),
            watched=self.watched,
            repairers=small_world.repairers(),
            ledgers=LedgerSight(basis="now", kinds=self.kinds),
            wall_ms=NOW_MS,
        )

    def _asked(self) -> Iterator[FormatsPod]:
        """Give the pod of the image that is asked for, while the roll to it is not done."""
        if self.asked_for in self.vetted and set(self.stands.values()) != {self.asked_for}:
            yield _answered(self.asked_for)

    def _owned(self) -> Mapping[tuple[str, str], Json]:
        found = {}
        for image in {OLD, *self.stands.values()}:
            for (plural, name), item in _objects(image).items():
                zone = item["metadata"]["labels"].get("zonekeeper.io/zone")
                is_set = plural == STATEFUL_SETS.plural
                if image == (self.stands[zone] if is_set else OLD):
                    found[plural, name] = item
        return found

    def _pod(self, name: BookieId) -> Pod:
        zone = name.split("-")[1]
        made = _objects(self.runs[name])[STATEFUL_SETS.plural, f"log-{zone}"]
        return Pod(
            name=name,
            zone=ZoneName(zone),
            ready=name not in self.unready,
            node=f"node-{zone}",
            revision=made["status"]["updateRevision"],
            controller=made["metadata"]["uid"],
            uid=self.uids.get(name, f"uid-{name}"),
            image=self.runs[name],
        )

    def _root(self) -> RootFound:
        policy = replace(self.wanted.policy, version=3, instance=INSTANCE)
        records = {
            name: BookieRecord(boot_epoch=self.boots.get(name, 1), formats=OURS) for name in BOOKIES
        }
        return RootFound(
            instance=INSTANCE,
            policy=policy,
            locations={name: _place(name) for name in BOOKIES},
            registered=frozenset(BOOKIES) - self.unregistered,
            read_only=frozenset(self.read_only),
            declared=Declared(standing=self.maintenance),
            work=WorkFacts(records=records, marked=0, first_marked=None),
        )


def _resource(image: str) -> Json:
    return resource(bookiesPerZone=3, image=image, update={"bake": "1m", "deadline": "10m"})


def _wanted(image: str) -> Desired:
    found = desired.read(_resource(image))
    assert isinstance(found, Desired)
    return found


def _place(bookie: BookieId) -> Location:
    domains = RoundRobin(upgrade_domains=3)
    ordinal = upgrade_domains.ordinal_of(bookie)
    return Location(ZoneName(bookie.split("-")[1]), upgrade_domains.of_ordinal(ordinal, domains))


def _objects(image: str) -> dict[tuple[str, str], Json]:
    found = {}
    for kind, made in owned_objects.all_of(_wanted(image), _resource(image), INSTANCE):
        name = made["metadata"]["name"]
        item = made | {"metadata": made["metadata"] | {"uid": f"uid-{name}", "generation": 1}}
        if kind is STATEFUL_SETS:
            item["status"] = {"observedGeneration": 1, "updateRevision": revision_of(made)}
        found[kind.plural, name] = item
    return found


def _answered(image: str) -> FormatsPod:
    return FormatsPod(
        name=formats_pod.name_of("log", image),
        uid=f"uid-{image}",
        exit_code=0,
        words=release_formats.render(OURS),
        trouble=None,
        leaving=False,
    )
