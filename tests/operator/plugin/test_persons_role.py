"""The role of a person allows what ``kubectl zonekeeper`` does, and nothing else."""

import contextlib

import yaml

from tests.operator.people import ordered
from tests.operator.plugin import playing
from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from tests.support.checkout_root import ROOT
from zonekeeper.operator.kubernetes.api import Json, ObjectKind
from zonekeeper.operator.plugin import person_place, report, rolls
from zonekeeper.operator.plugin.orders_made import AskedByPerson
from zonekeeper.operator.plugin.person_place import NoSuchResourceError
from zonekeeper.operator.roots.resource_orders import AskedFor


def allowed(name: str) -> set[tuple[str, str]]:
    text = (ROOT / "manifests" / "operator" / "people.yaml").read_text()
    roles: dict[str, Json] = {one["metadata"]["name"]: one for one in yaml.safe_load_all(text)}
    return {
        (f"{group}/{resource}", verb)
        for rule in roles[name]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


async def test_the_role_of_a_person_allows_exactly_what_the_plugin_does() -> None:
    world = World()
    await world.settle()
    used: set[tuple[str, str]] = set()
    of_plugin = {"edit": ("", "patch"), "log": ("/log", "get")}

    def note(verb: str, kind: ObjectKind) -> None:
        part, said = of_plugin.get(verb, ("", verb))
        used.add((f"{kind.group}/{kind.plural}{part}", said))

    at = playing.desk(world)

    async def by_operator() -> None:
        world.kubernetes.disturb = world.fate
        await world.turn()
        world.kubernetes.disturb = note

    at = type(at)(api=at.api, namespace=SPACE, name=NAME, wall_ms=at.wall_ms, pause=by_operator)
    world.kubernetes.disturb = note
    await playing.give(at, AskedByPerson(asked=AskedFor.DISABLE))
    paused: Json = {"spec": {"update": {"paused": True}}}
    await rolls.changed(world.kubernetes, SPACE, NAME, paused, pause=by_operator)
    await report.parts(world.kubernetes, SPACE, ordered.resource_of(world), now_ms=1)
    with contextlib.suppress(NoSuchResourceError):
        await person_place.resource(world.kubernetes, SPACE, "nothing")

    assert used == allowed("zonekeeper-operator-person")


def test_who_may_see_may_change_nothing() -> None:
    assert {verb for _, verb in allowed("zonekeeper-operator-view")} == {"get", "list", "watch"}
