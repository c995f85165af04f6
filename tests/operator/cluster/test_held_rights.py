"""How strictly bookies hold rights, as a person chooses it for a cluster."""

import pytest

from tests.operator.cluster.test_seam import INSTANCE, told
from tests.operator.resources import resource
from tests.operator.worlds import World
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import STATEFUL_SETS, Json
from zonekeeper.wire.identity.callers import Enforcement, OwnerRule

TLS: Json = {"mode": "Operator"}


def refused(config: Json, **spec: object) -> list[str]:
    found = desired.read(resource(config=config, **spec))
    return list(found.reasons) if isinstance(found, RefusedResource) else []


@pytest.mark.parametrize("access", list(Enforcement))
@pytest.mark.parametrize("owners", list(OwnerRule))
@pytest.mark.parametrize("tls", [TLS, {"mode": "Plaintext"}], ids=["tls", "plaintext"])
def test_nobody_is_held_where_nobody_is_known(
    tls: Json, access: Enforcement, owners: OwnerRule
) -> None:
    has_tls, is_off = tls is TLS, access is Enforcement.OFF
    wanted = [] if has_tls or is_off else ["spec.config.access"]
    if owners is not OwnerRule.OFF and (is_off or not has_tls):
        wanted.append("spec.config.ledger-owners")
    said = refused({"access": access.value, "ledger-owners": owners.value}, tls=tls)
    assert [one.split(":")[0] for one in said] == wanted
    for one in said:
        assert "must be off" in one
        assert ("without TLS" if not has_tls else "with access: off") in one


def test_owners_are_held_with_the_default_of_access_and_not_without_tls() -> None:
    assert refused({"ledger-owners": "on"}, tls=TLS) == []
    assert len(refused({"ledger-owners": "on"})) == 1
    assert refused({}) == []
    assert len(refused({"access": "strict"}, tls=TLS)) == 1


@pytest.mark.parametrize(
    ("config", "access", "owners"),
    [
        ({}, Enforcement.NAMED, OwnerRule.OFF),
        ({"access": "off"}, Enforcement.OFF, OwnerRule.OFF),
        ({"access": "warn", "ledger-owners": "warn"}, Enforcement.WARN, OwnerRule.WARN),
        ({"access": "on", "ledger-owners": "on"}, Enforcement.ON, OwnerRule.ON),
    ],
)
def test_the_bookies_hold_what_was_chosen(
    config: Json, access: Enforcement, owners: OwnerRule
) -> None:
    item = resource(config=config, tls=TLS)
    found = desired.read(item)
    assert isinstance(found, Desired)
    made = [
        body for kind, body in owned_objects.all_of(found, item, INSTANCE) if kind == STATEFUL_SETS
    ]
    assert len(made) == len(found.zones)
    for each in made:
        read = told(each)
        assert (read.access, read.ledger_owners) == (access, owners)


async def test_the_condition_says_how_loosely_rights_are_held() -> None:
    world = World(tls=TLS, config={"access": "off"})
    await world.settle()
    for access, said in (
        ("off", "spec.config.access is off: a certificate of any role may do everything"),
        ("warn", "is done, and counted (zonekeeper_bookie_access_refusals_total)"),
        ("named", ""),
        ("on", ""),
    ):
        await world.change(config={"access": access})
        await world.settle()
        assert (await world.conditions())["Secure"] == ("True", "Operator")
        told = await world.message("Secure")
        assert said in told
        assert ("spec.config.access" in told) is bool(said)
