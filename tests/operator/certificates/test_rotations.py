"""The certificates of a cluster over its life, with real keys, beside the twin of Kubernetes."""

import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.operator.certificates import handshakes
from tests.operator.certificates.handshakes import AUTHORITY, AUTORECOVERY, secret
from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.certificates import secret_data
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CERTIFICATES,
    DEPLOYMENTS,
    EVENTS,
    OWNED,
    POLICIES,
    SECRETS,
    STATEFUL_SETS,
    GoneError,
    Json,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.operator.run import running
from zonekeeper.wire.signing import pem

OWN: Json = {"mode": "Operator", "settle": "1s", "clients": ["app"]}
APP = tls_parts.client_name(NAME, "app")
BY_ISSUER: Json = {"mode": "Issuer", "issuerRef": {"name": "ours", "kind": "ClusterIssuer"}}
SECRETS_OF_ALL = [handshakes.bookies(zone) for zone in "abc"] + [AUTORECOVERY, APP]
READY = ("True", "AllReady")
#: More turns than the longest wait of a rotation.
IDLE_TURNS = 12


async def built() -> World:
    world = World(tls=OWN)
    await world.settle()
    return world


async def rest(world: World, after_turn: Callable[[], None] = lambda: None) -> None:
    """Let turns come until Secrets stay as they are."""
    idle, before = 0, await world.kubernetes.list(SECRETS, SPACE)
    for _ in range(200):
        await world.turn()
        await world.controllers()
        after = await world.kubernetes.list(SECRETS, SPACE)
        if after != before:
            after_turn()
        idle, before = idle + 1 if before == after else 0, after
        if idle == IDLE_TURNS:
            return
    raise AssertionError("it does not come to rest")


def rotate(world: World, word: str) -> None:
    """Ask for another authority, as a person does."""
    found = world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
    assert found is not None
    found["metadata"]["annotations"] = {secret_data.ROTATE: word}
    world.kubernetes.put(BOOKIE_CLUSTERS, found)


def signs(world: World) -> bytes:
    return secret_data.value(secret(world.kubernetes, AUTHORITY), tls_parts.CERTIFICATE)


async def test_a_new_resource_without_a_word_speaks_tls(tmp_path: Path) -> None:
    world = World(tls=None, network=None)
    await world.settle()

    said = await world.conditions()
    assert (said["Ready"], said["Secure"]) == (READY, ("True", "Operator"))
    handshakes.shake_all(world.kubernetes, tmp_path)
    assert (await world.get())["status"]["defaults"] == "Secure"
    assert len(await world.kubernetes.list(POLICIES, SPACE)) == 3
    for item in await world.kubernetes.list(STATEFUL_SETS, SPACE):
        pod = item["spec"]["template"]["spec"]
        zone = item["metadata"]["labels"]["zonekeeper.io/zone"]
        assert pod["volumes"] == [
            {"name": "tls", "secret": {"secretName": handshakes.bookies(zone)}}
        ]
    for item in await world.kubernetes.list(DEPLOYMENTS, SPACE):
        (volume,) = item["spec"]["template"]["spec"]["volumes"]
        assert volume["secret"] == {"secretName": AUTORECOVERY}


async def test_a_resource_that_an_older_operator_built_stays_as_it_was() -> None:
    world = World()
    await world.settle()
    before = [
        item["spec"]
        for kind in (STATEFUL_SETS, DEPLOYMENTS)
        for item in await world.kubernetes.list(kind, SPACE)
    ]
    found = await world.get()
    del found["spec"]["tls"], found["spec"]["network"], found["status"]["defaults"]
    world.kubernetes.put(BOOKIE_CLUSTERS, found)
    world.reconciler = world.new_operator()

    await world.settle()

    assert (await world.get())["status"]["defaults"] == "Open"
    assert before == [
        item["spec"]
        for kind in (STATEFUL_SETS, DEPLOYMENTS)
        for item in await world.kubernetes.list(kind, SPACE)
    ]
    for kind in (SECRETS, POLICIES):
        assert await world.kubernetes.list(kind, SPACE) == []
    said = await world.conditions()
    assert (said["Ready"], said["Secure"]) == (READY, ("False", "Plaintext"))


async def test_each_principal_and_each_bookie_is_named(tmp_path: Path) -> None:
    world = await built()
    instance = (await world.get())["status"]["instance"]

    def names(name: str) -> tuple[frozenset[str], frozenset[str]]:
        item = secret(world.kubernetes, name)
        return pem.names(secret_data.value(item, tls_parts.CERTIFICATE))

    uris, dns = names(handshakes.bookies("a"))
    assert uris == {f"zonekeeper://{instance}/bookie/log-a"}
    service = f"log-bookies.{SPACE}.svc"
    assert dns == {"log-a-0", "log-a-1", service, f"*.{service}"}
    repairs = f"zonekeeper://{instance}/autorecovery/log-autorecovery"
    assert names(AUTORECOVERY) == (frozenset({repairs}), frozenset())
    assert names(APP) == (frozenset({f"zonekeeper://{instance}/client/app"}), frozenset())
    await world.change(bookiesPerZone=3)
    await world.settle()
    assert "log-a-2" in names(handshakes.bookies("a"))[1]
    handshakes.shake_all(world.kubernetes, tmp_path, APP)


async def test_authorities_follow_each_other_and_no_pod_is_made_anew(tmp_path: Path) -> None:
    world = await built()
    pods, kept = dict(world.started), signs(world)
    for word in ("one", "two"):
        rotate(world, word)
        await rest(world, after_turn=lambda: handshakes.shake_all(world.kubernetes, tmp_path, APP))
        assert signs(world) != kept
        kept = signs(world)

    assert world.started == pods
    said = await world.conditions()
    assert (said["Secure"], said["UpToDate"][0]) == (("True", "Operator"), "True")
    for name in SECRETS_OF_ALL:
        item = secret(world.kubernetes, name)
        assert secret_data.value(item, tls_parts.AUTHORITIES) == kept


async def test_what_a_person_does_to_secrets_is_put_right(tmp_path: Path) -> None:
    world = await built()
    removed, spoilt = handshakes.bookies("a"), secret(world.kubernetes, APP)
    world.kubernetes.mark_deleted(SECRETS, SPACE, removed)
    spoilt["data"]["tls.key"] = base64.b64encode(b"nothing").decode()
    world.kubernetes.put(SECRETS, spoilt)

    await rest(world)

    handshakes.shake_all(world.kubernetes, tmp_path, APP)
    before = signs(world)
    world.kubernetes.mark_deleted(SECRETS, SPACE, AUTHORITY)
    await rest(world, after_turn=lambda: handshakes.shake_all(world.kubernetes, tmp_path, APP))
    assert signs(world) != before
    assert (await world.conditions())["Secure"] == ("True", "Operator")


async def test_a_lost_secret_is_told_of_until_it_is_there_again() -> None:
    world = await built()
    world.kubernetes.mark_deleted(SECRETS, SPACE, AUTORECOVERY)
    await world.turn()
    assert (await world.conditions())["Secure"] == ("False", "NotIssued")
    assert AUTORECOVERY in await world.message("Secure")


async def test_an_edit_between_the_look_and_the_act_is_not_written_over() -> None:
    world = await built()
    world.kubernetes.mark_deleted(SECRETS, SPACE, AUTORECOVERY)
    reads = 0

    def change(verb: str, kind: ObjectKind) -> None:
        nonlocal reads
        reads += kind is SECRETS and verb == "get"
        if kind is SECRETS and verb == "create":
            world.fate = lambda verb, kind: None
            world.kubernetes.disturb = world.fate
            meta = {"name": AUTORECOVERY, "namespace": SPACE, "ownerReferences": [_owner()]}
            world.kubernetes.put(SECRETS, {"metadata": meta, "data": {"mine": "bWluZQ=="}})

    world.fate = change
    await world.turn()

    assert reads > 0
    assert secret(world.kubernetes, AUTORECOVERY)["data"] == {"mine": "bWluZQ=="}
    await world.settle()
    assert secret(world.kubernetes, AUTORECOVERY)["data"] == {"mine": "bWluZQ=="}
    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert f"Secret {AUTORECOVERY} is there already" in await world.message("Legal")


def _owner() -> Json:
    return {"kind": "Other", "name": "x", "uid": "uid-of-another", "controller": True}


async def test_an_authority_of_another_is_neither_used_nor_changed() -> None:
    world = World(tls=OWN)
    meta = {"name": AUTHORITY, "namespace": SPACE}
    world.kubernetes.put(SECRETS, {"metadata": meta, "data": {"tls.crt": ""}})

    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert secret(world.kubernetes, AUTHORITY)["data"] == {"tls.crt": ""}


async def test_secrets_from_a_backup_are_taken_up_again(tmp_path: Path) -> None:
    world = await built()
    before = signs(world)
    for name in (AUTHORITY, *SECRETS_OF_ALL):
        item = secret(world.kubernetes, name)
        del item["metadata"]["ownerReferences"]
        world.kubernetes.put(SECRETS, item)

    await rest(world)

    assert signs(world) == before
    assert (await world.conditions())["Secure"] == ("True", "Operator")
    handshakes.shake_all(world.kubernetes, tmp_path, APP)


async def test_secrets_go_with_the_resource_and_the_next_of_its_name_has_its_own(
    tmp_path: Path,
) -> None:
    world = await built()
    before = signs(world)
    left = secret(world.kubernetes, AUTHORITY)
    world.delete()
    await world.settle()
    assert await world.kubernetes.list(SECRETS, SPACE) == []

    world.kubernetes.put(SECRETS, left)  # it is just going
    await world.make_again(tls=OWN)
    await world.settle()
    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    world.kubernetes.mark_deleted(SECRETS, SPACE, AUTHORITY)
    await world.settle()

    assert (await world.conditions())["Secure"] == ("True", "Operator")
    assert signs(world) != before
    handshakes.shake_all(world.kubernetes, tmp_path, APP)


@pytest.mark.parametrize(
    ("before", "after"), [("Operator", "Plaintext"), ("Plaintext", "Operator")]
)
async def test_the_mode_of_a_cluster_that_runs_stays(before: str, after: str) -> None:
    world = World(tls={"mode": before})
    await world.settle()
    stood = await world.kubernetes.list(STATEFUL_SETS, SPACE)

    await world.change(tls={"mode": after})
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    said = await world.message("Legal")
    assert f"spec.tls.mode: {after}: cannot change while the cluster runs" in said
    assert "onDelete: Retain and apply it anew" in said
    assert await world.kubernetes.list(STATEFUL_SETS, SPACE) == stood
    assert (await world.conditions())["Ready"] == READY


async def test_a_cluster_changes_its_mode_by_being_made_anew_over_its_volumes() -> None:
    world = World()
    await world.settle()
    instance = (await world.get())["status"]["instance"]
    world.delete()
    await world.settle()

    await world.make_again(tls=OWN)
    await world.settle()

    said = await world.conditions()
    assert (said["Ready"], said["Secure"]) == (READY, ("True", "Operator"))
    assert (await world.get())["status"]["instance"] == instance


async def test_without_rights_over_secrets_the_cluster_goes_on_and_says_so() -> None:
    world = await built()

    def refuse(verb: str, kind: ObjectKind) -> None:
        if kind is SECRETS:
            raise NotPermittedError(403, "no")

    world.fate = refuse
    await world.turn()

    said = await world.conditions()
    assert (said["Ready"], said["Secure"]) == (READY, ("Unknown", "SecretsNotPermitted"))
    assert "manifests/operator/rbac.yaml" in await world.message("Secure")
    plain = World()
    plain.fate = refuse
    await plain.settle()
    assert (await plain.conditions())["Ready"] == READY, "it reads no Secret"


async def test_without_cert_manager_nothing_is_made_and_a_condition_says_so() -> None:
    world = World(tls=BY_ISSUER)

    def unknown(verb: str, kind: ObjectKind) -> None:
        if kind is CERTIFICATES:
            raise GoneError(404, "the server could not find the requested resource")

    world.fate = unknown
    await world.settle()

    assert (await world.conditions())["Secure"] == ("Unknown", "NoCertManager")
    assert await world.kubernetes.list(STATEFUL_SETS, SPACE) == []
    world.fate = lambda verb, kind: None
    await world.settle()
    assert (await world.conditions())["Secure"] == ("False", "NotIssued")
    assert len(await world.kubernetes.list(STATEFUL_SETS, SPACE)) == 3


async def test_cert_manager_is_asked_for_each_secret_and_again_for_more_names() -> None:
    world = World(tls={**BY_ISSUER, "clients": ["app"]})
    await world.settle()

    made = {
        item["metadata"]["name"]: item for item in await world.kubernetes.list(CERTIFICATES, "")
    }
    assert sorted(made) == sorted(SECRETS_OF_ALL)
    spec = made[handshakes.bookies("a")]["spec"]
    assert spec["issuerRef"] == {
        "group": "cert-manager.io",
        "kind": "ClusterIssuer",
        "name": "ours",
    }
    assert spec["secretName"] == handshakes.bookies("a")
    assert "log-a-1" in spec["dnsNames"]
    assert "server auth" not in made[APP]["spec"]["usages"]
    assert await world.kubernetes.list(SECRETS, SPACE) == [], "it writes none itself"

    await world.change(bookiesPerZone=3)
    await world.settle()
    again = world.kubernetes.peek(CERTIFICATES, SPACE, handshakes.bookies("a"))
    assert again is not None
    assert "log-a-2" in again["spec"]["dnsNames"]


async def test_given_secrets_are_mounted_and_never_written() -> None:
    given = {"bookies": "of-bookies", "autorecovery": "of-repair"}
    world = World(tls={"mode": "Secrets", "secrets": given})
    await world.settle()
    assert (await world.conditions())["Secure"] == ("False", "NotIssued")
    other = await built()
    for name, source in (("of-bookies", handshakes.bookies("a")), ("of-repair", AUTORECOVERY)):
        data = secret(other.kubernetes, source)["data"]
        world.kubernetes.put(
            SECRETS, {"metadata": {"name": name, "namespace": SPACE}, "data": data}
        )

    await world.settle()

    assert (await world.conditions())["Secure"] == ("True", "Secrets")
    (volume,) = (await world.kubernetes.list(STATEFUL_SETS, SPACE))[0]["spec"]["template"]["spec"][
        "volumes"
    ]
    assert volume["secret"] == {"secretName": "of-bookies"}
    assert len(await world.kubernetes.list(SECRETS, SPACE)) == 2


async def test_certificates_that_nobody_renews_are_told_of_before_they_end() -> None:
    world = await built()
    meta = (await world.get())["metadata"]
    given = {"bookies": handshakes.bookies("a"), "autorecovery": AUTORECOVERY}
    other = World(tls={"mode": "Secrets", "secrets": given})
    for name in given.values():
        other.kubernetes.put(SECRETS, secret(world.kubernetes, name))
    await other.settle()
    assert meta["uid"]

    for days, found in ((82, ("True", "Secrets")), (84, ("False", "ExpiresSoon"))):
        other.now_ms = days * 86_400_000
        await other.turn()
        assert (await other.conditions())["Secure"] == found
    other.now_ms = 91 * 86_400_000
    await other.turn()
    said = await other.conditions()
    assert said["Secure"] == ("False", "Expired")


async def test_no_key_is_told_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    told = []
    with caplog.at_level(logging.DEBUG):
        world = await built()
        rotate(world, "please")
        for _ in range(40):
            plan = await world.plan()
            told.append(repr(plan))
            await world.turn()
            for kind in (BOOKIE_CLUSTERS, EVENTS, STATEFUL_SETS, CERTIFICATES):
                told.append(json.dumps(await world.kubernetes.list(kind, "")))
    told.append(caplog.text)
    found = "\n".join(told)
    assert "IssueCertificate" in found

    keys = 0
    for item in await world.kubernetes.list(SECRETS, SPACE):
        for name, value in item["data"].items():
            if name.endswith(".key") and value:
                keys += 1
                lines = base64.b64decode(value).decode().splitlines()[1:-1]
                assert value not in found
                assert not any(line in found for line in lines)
    assert keys == 1 + len(SECRETS_OF_ALL)
    assert "PRIVATE" not in found


async def test_with_the_rights_of_a_release_before_tls_an_older_cluster_goes_on() -> None:
    def refuse(verb: str, kind: ObjectKind) -> None:
        if kind in (SECRETS, POLICIES, CERTIFICATES):
            raise NotPermittedError(403, f"{kind.plural} is forbidden")

    world = World()
    world.fate = refuse
    await world.settle()
    said = await world.conditions()
    assert (said["Ready"], said["Applied"]) == (READY, ("True", "Applied"))

    asks = World(network={"policies": True})
    asks.fate = refuse
    for _ in range(12):
        await asks.turn()
    assert (await asks.conditions())["Applied"][0] == "False"
    assert "networkpolicies is forbidden" in await asks.message("Applied")


async def test_kinds_that_may_not_be_read_are_not_watched() -> None:
    world = World()
    assert await running.watched_kinds(world.kubernetes, ()) == OWNED

    def refuse(verb: str, kind: ObjectKind) -> None:
        if kind is POLICIES:
            raise NotPermittedError(403, "no")

    world.kubernetes.disturb = refuse
    kept = tuple(kind for kind in OWNED if kind is not POLICIES)
    assert await running.watched_kinds(world.kubernetes, (SPACE,)) == kept
