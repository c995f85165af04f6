"""What every ``Kubernetes`` promises: one suite, run here on the twin, in the lab on a server.

Only what both do is in it; the twin's docstring says what it does not model.
"""

import abc
import asyncio
from collections.abc import Sequence

import pytest

from zonekeeper.operator.kubernetes.api import (
    EVENTS,
    FINALIZER,
    POLICIES,
    STATEFUL_SETS,
    GoneError,
    Json,
    Kubernetes,
    KubernetesError,
    ObjectChangedError,
    ObjectKind,
)
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes

#: A kind that only the suite works on, with a status of its own and no rules.
PROBES = ObjectKind(group="contract.zonekeeper.io", version="v1", plural="probes", name="Probe")
#: A kind that a collector of garbage knows from the start.
CONFIG_MAPS = ObjectKind(group="", version="v1", plural="configmaps", name="ConfigMap")

THEIRS = "somebody.else/backup"
POLL_S = 0.05
LIMIT_S = 60


class Place(abc.ABC):
    """A Kubernetes, two namespaces of a test's own, and another manager that works in them."""

    def __init__(self, kubernetes: Kubernetes, space: str) -> None:
        self.kubernetes = kubernetes
        self.space = space
        self.other_space = f"{space}-other"

    @abc.abstractmethod
    def put(self, kind: ObjectKind, body: Json) -> None:
        """Let the other manager make an object, or write over it."""

    @abc.abstractmethod
    def delete(self, kind: ObjectKind, name: str) -> None:
        """Let the other manager delete an object."""

    def body(self, name: str = "x", kind: ObjectKind = PROBES, **parts: object) -> Json:
        """Say an object in full."""
        meta = {"name": name, "namespace": self.space}
        return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **parts}

    async def apply(self, name: str = "x", *, spec: object = None, **meta: object) -> Json:
        """Apply a probe, and give it as it stands then."""
        body = self.body(name)
        body["metadata"] |= meta
        await self.kubernetes.apply(PROBES, body if spec is None else body | {"spec": spec})
        return await self.get(name)

    async def get(self, name: str = "x", kind: ObjectKind = PROBES) -> Json:
        """Read an object that is there."""
        found = await self.kubernetes.get(kind, self.space, name)
        assert found is not None, name
        return found

    async def made_by_others(self, *finalizers: str) -> Json:
        """Let a probe be there that the other manager made."""
        body = self.body(spec={"size": 1})
        body["metadata"]["finalizers"] = [*finalizers]
        self.put(PROBES, body)
        return await self.get()

    async def gone(self, name: str = "x", kind: ObjectKind = PROBES) -> None:
        """Wait until an object is not there any more."""
        async with asyncio.timeout(LIMIT_S):
            while await self.kubernetes.get(kind, self.space, name):  # noqa: ASYNC110 another process
                await asyncio.sleep(POLL_S)


def finalizers(item: Json) -> Sequence[str]:
    found: Sequence[str] = item["metadata"].get("finalizers", [])
    return found


def version(item: Json) -> object:
    return item["metadata"]["resourceVersion"]


def names(items: Sequence[Json]) -> list[tuple[str, str]]:
    return [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items]


class Contract:
    """The suite; what runs it has a fixture ``place``."""

    # ── reading ──

    async def test_an_empty_list_of_a_kind_of_kubernetes_is_not_stored(self, place: Place) -> None:
        spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []}
        await place.kubernetes.apply(POLICIES, place.body(kind=POLICIES, spec=spec))
        del spec["ingress"]
        assert (await place.get(kind=POLICIES))["spec"] == spec
        assert (await place.apply(spec={"all": []}))["spec"] == {"all": []}, "a kind of its own"

    async def test_what_is_not_there_reads_as_none(self, place: Place) -> None:
        assert await place.kubernetes.get(PROBES, place.space, "x") is None
        assert await place.kubernetes.list(PROBES, place.space) == []

    async def test_a_list_is_of_one_namespace_or_all_by_labels_sorted_by_name(
        self, place: Place
    ) -> None:
        own = {"of": place.space}
        for name in ("c", "a", "b"):
            await place.apply(name, labels=own | {"side": "left"})
        await place.apply("d", labels=own | {"side": "right"})
        away = place.body("bb")
        away["metadata"] |= {"namespace": place.other_space, "labels": own | {"side": "left"}}
        await place.kubernetes.apply(PROBES, away)

        here = await place.kubernetes.list(PROBES, place.space)
        left = f"of={place.space},side=left"
        anywhere = await place.kubernetes.list(PROBES, "", labels=left)

        assert names(here) == [(place.space, name) for name in "abcd"]
        assert names(anywhere) == [
            *((place.space, "a"), (place.space, "b")),
            *((place.other_space, "bb"), (place.space, "c")),
        ]

    # ── rules ──

    async def test_claim_templates_stay_as_they_were_made(self, place: Place) -> None:
        pod = {"containers": [{"name": "one", "image": "none"}]}
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        spec: Json = {
            "serviceName": "x",
            "replicas": 0,
            "selector": {"matchLabels": {"of": "x"}},
            "template": {"metadata": {"labels": {"of": "x"}}, "spec": pod},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        }
        await place.kubernetes.apply(STATEFUL_SETS, place.body(kind=STATEFUL_SETS, spec=spec))
        claim |= {"storageClassName": "other"}
        with pytest.raises(KubernetesError) as refused:
            await place.kubernetes.apply(STATEFUL_SETS, place.body(kind=STATEFUL_SETS, spec=spec))
        assert refused.value.status == 422
        assert "spec.volumeClaimTemplates" in str(refused.value)
        found = await place.get(kind=STATEFUL_SETS)
        assert "storageClassName" not in found["spec"]["volumeClaimTemplates"][0]["spec"]

    # ── creating ──

    async def test_what_is_there_is_not_created_again(self, place: Place) -> None:
        await place.kubernetes.create(PROBES, place.body("fluid", spec={"size": 1}))
        made = await place.get("fluid")

        with pytest.raises(KubernetesError) as refused:
            await place.kubernetes.create(PROBES, place.body("fluid", spec={"size": 2}))

        assert refused.value.status == 409
        assert not isinstance(refused.value, GoneError)
        assert await place.get("fluid") == made
        assert made["metadata"]["uid"]
        assert made["metadata"]["generation"] == 1

    async def test_an_event_is_stored_beside_what_it_is_about(self, place: Place) -> None:
        about = await place.apply()
        meta = about["metadata"]
        named = {name: meta[name] for name in ("name", "namespace", "uid")}
        body = place.body("x.1", EVENTS, reason="Tried", message="it was tried", type="Normal")
        body["involvedObject"] = {"apiVersion": PROBES.api_version, "kind": PROBES.name, **named}

        await place.kubernetes.create(EVENTS, body)

        (found,) = await place.kubernetes.list(EVENTS, place.space)
        assert (found["message"], found["involvedObject"]["uid"]) == ("it was tried", meta["uid"])

    # ── applying ──

    async def test_the_same_again_changes_nothing(self, place: Place) -> None:
        first = await place.apply(spec={"size": 1, "parts": {"a": 1}}, labels={"a": "b"})
        assert await place.apply(spec={"size": 1, "parts": {"a": 1}}, labels={"a": "b"}) == first

    async def test_a_new_spec_is_a_new_generation_and_new_labels_are_not(
        self, place: Place
    ) -> None:
        first = await place.apply(spec={"size": 1})
        second = await place.apply(spec={"size": 2})
        third = await place.apply(spec={"size": 2}, labels={"a": "b"})

        assert [item["metadata"]["generation"] for item in (first, second, third)] == [1, 2, 2]
        assert len({version(item) for item in (first, second, third)}) == 3
        assert {item["metadata"]["uid"] for item in (first, second, third)} == {
            first["metadata"]["uid"]
        }

    async def test_what_others_add_stays_and_what_both_say_is_ours(self, place: Place) -> None:
        theirs = place.body(spec={"size": 1, "colour": "red", "list": [1, 2]})
        theirs["metadata"] |= {"labels": {"a": "theirs", "b": "theirs"}}
        place.put(PROBES, theirs)

        found = await place.apply(spec={"size": 2, "list": [3]}, labels={"a": "ours"})

        assert found["spec"] == {"size": 2, "colour": "red", "list": [3]}
        assert found["metadata"]["labels"] == {"a": "ours", "b": "theirs"}

    async def test_a_part_that_says_nothing_new_is_no_new_generation(self, place: Place) -> None:
        await place.made_by_others()
        first = await place.apply(spec={"colour": "red"})
        second = await place.apply(spec={"colour": "red"})
        assert first["spec"] == {"size": 1, "colour": "red"}
        assert second["metadata"]["generation"] == first["metadata"]["generation"] == 2

    async def test_an_object_that_is_another_is_not_changed(self, place: Place) -> None:
        first = await place.apply()
        with pytest.raises(GoneError):
            await place.apply("y", uid=first["metadata"]["uid"])
        place.delete(PROBES, "x")
        second = await place.apply()

        with pytest.raises(GoneError):
            await place.apply(uid=first["metadata"]["uid"], labels={"a": "b"})

        assert await place.get() == second
        assert await place.kubernetes.get(PROBES, place.space, "y") is None
        assert await place.apply(uid=second["metadata"]["uid"]) == second

    async def test_a_version_that_is_another_is_not_changed(self, place: Place) -> None:
        first = await place.apply()
        one = {"uid": first["metadata"]["uid"]}
        second = await place.apply(**one, resourceVersion=version(first), labels={"a": "b"})

        with pytest.raises(ObjectChangedError):
            await place.apply(**one, resourceVersion=version(first), labels={"a": "c"})

        assert await place.get() == second

    async def test_a_status_is_written_alone(self, place: Place) -> None:
        before = await place.apply(spec={"size": 1})
        named = place.body() | {"spec": {"size": 2}}
        await place.kubernetes.apply(
            PROBES, named | {"status": {"a": 1, "b": 1}}, subresource="status"
        )
        first = await place.get()
        await place.kubernetes.apply(PROBES, named | {"status": {"b": 2}}, subresource="status")
        second = await place.get()

        assert (first["status"], second["status"]) == ({"a": 1, "b": 1}, {"b": 2})
        assert second["spec"] == before["spec"]
        assert second["metadata"]["generation"] == before["metadata"]["generation"]
        assert len({version(item) for item in (before, first, second)}) == 3

    async def test_a_status_is_not_written_over_another_version(self, place: Place) -> None:
        seen = await place.apply(spec={"size": 1})
        await place.apply(spec={"size": 2})
        body = place.body() | {"status": {"a": 1}}
        body["metadata"] |= {name: seen["metadata"][name] for name in ("uid", "resourceVersion")}

        with pytest.raises(ObjectChangedError):
            await place.kubernetes.apply(PROBES, body, subresource="status")

        assert "status" not in await place.get()

    async def test_nothing_has_no_status(self, place: Place) -> None:
        with pytest.raises(GoneError):
            await place.kubernetes.apply(
                PROBES, place.body() | {"status": {"a": 1}}, subresource="status"
            )
        assert await place.kubernetes.get(PROBES, place.space, "x") is None

    # ── editing ──

    async def test_an_edit_changes_what_it_names_and_removes_what_it_says_none_of(
        self, place: Place
    ) -> None:
        before = await place.apply(spec={"size": 1, "colour": "red"}, labels={"a": "b", "c": "d"})
        gone = {"spec": {"size": 2, "colour": None}, "metadata": {"labels": {"a": None}}}

        await place.kubernetes.edit(PROBES, before, gone)

        after = await place.get()
        assert (after["spec"], after["metadata"]["labels"]) == ({"size": 2}, {"c": "d"})
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
        await place.kubernetes.edit(PROBES, after, {"metadata": {"annotations": {"a": "b"}}})
        again = await place.apply(spec={"size": 2}, labels={"c": "d"})
        assert again["metadata"]["annotations"] == {"a": "b"}, "an apply leaves it alone"

    async def test_an_edit_is_of_this_very_object_at_this_version(self, place: Place) -> None:
        first = await place.apply(spec={"size": 1})
        second = await place.apply(spec={"size": 2})
        with pytest.raises(ObjectChangedError):
            await place.kubernetes.edit(PROBES, first, {"spec": {"size": 3}})
        assert await place.get() == second
        place.delete(PROBES, "x")
        with pytest.raises(GoneError):
            await place.kubernetes.edit(PROBES, second, {"spec": {"size": 3}})
        third = await place.apply(spec={"size": 1})

        with pytest.raises(KubernetesError):
            await place.kubernetes.edit(PROBES, second, {"spec": {"size": 3}})

        assert await place.get() == third

    async def test_a_pod_that_is_not_there_has_no_log(self, place: Place) -> None:
        assert await place.kubernetes.log(place.space, "nobody", lines=3) is None

    # ── finalizers ──

    async def test_a_finalizer_that_only_we_put_on_goes_when_it_is_not_said(
        self, place: Place
    ) -> None:
        assert finalizers(await place.apply(finalizers=[FINALIZER])) == [FINALIZER]
        assert finalizers(await place.apply()) == []
        assert finalizers(await place.apply(finalizers=[FINALIZER])) == [FINALIZER]
        assert finalizers(await place.apply()) == []

    async def test_a_finalizer_that_others_put_on_too_stays_until_it_is_released(
        self, place: Place
    ) -> None:
        await place.made_by_others(THEIRS, FINALIZER)
        assert finalizers(await place.apply(finalizers=[FINALIZER])) == [THEIRS, FINALIZER]
        seen = await place.apply()
        assert finalizers(seen) == [THEIRS, FINALIZER]

        await place.kubernetes.release(PROBES, seen)

        found = await place.get()
        assert finalizers(found) == [THEIRS]
        assert version(found) != version(seen)

    async def test_what_others_put_behind_it_is_no_hindrance_to_a_release(
        self, place: Place
    ) -> None:
        seen = await place.made_by_others(FINALIZER)
        later = await place.get()
        later["metadata"]["finalizers"].append(THEIRS)
        place.put(PROBES, later)

        await place.kubernetes.release(PROBES, seen)

        assert finalizers(await place.get()) == [THEIRS]

    async def test_a_finalizer_that_is_in_another_place_by_now_is_not_released(
        self, place: Place
    ) -> None:
        seen = await place.made_by_others(FINALIZER)
        later = await place.get()
        later["metadata"]["finalizers"].insert(0, THEIRS)
        place.put(PROBES, later)

        with pytest.raises(KubernetesError):
            await place.kubernetes.release(PROBES, seen)

        assert finalizers(await place.get()) == [THEIRS, FINALIZER]

    async def test_only_the_very_object_is_released(self, place: Place) -> None:
        seen = await place.made_by_others(FINALIZER)
        place.delete(PROBES, "x")
        await place.kubernetes.release(PROBES, seen)
        with pytest.raises(GoneError):
            await place.kubernetes.release(PROBES, seen)
        again = await place.made_by_others(FINALIZER)

        with pytest.raises(KubernetesError):
            await place.kubernetes.release(PROBES, seen)

        assert await place.get() == again

    async def test_what_is_deleted_gets_no_new_finalizer(self, place: Place) -> None:
        await place.made_by_others(THEIRS)
        place.delete(PROBES, "x")
        with pytest.raises(KubernetesError):
            await place.apply(finalizers=[FINALIZER])
        assert finalizers(await place.get()) == [THEIRS]

    # ── deleting ──

    async def test_this_very_object_is_deleted_and_gone_counts_as_done(self, place: Place) -> None:
        first = await place.apply()
        uid = first["metadata"]["uid"]
        await place.kubernetes.delete(PROBES, place.space, "x", uid=uid)
        await place.kubernetes.delete(PROBES, place.space, "x", uid=uid)
        second = await place.apply()
        await place.kubernetes.delete(PROBES, place.space, "x", uid=uid)
        assert await place.get() == second

    async def test_what_has_a_finalizer_is_marked_and_goes_with_the_last(
        self, place: Place
    ) -> None:
        held = await place.apply(spec={"size": 1}, finalizers=[FINALIZER])
        uid = held["metadata"]["uid"]
        await place.kubernetes.delete(PROBES, place.space, "x", uid=uid)
        marked = await place.get()
        await place.kubernetes.delete(PROBES, place.space, "x", uid=uid)

        assert await place.get() == marked
        assert marked["metadata"]["deletionTimestamp"]
        assert "deletionTimestamp" not in held["metadata"]
        assert version(marked) != version(held)
        assert [item["metadata"]["generation"] for item in (held, marked)] == [1, 2]
        with pytest.raises(ObjectChangedError):
            await place.apply(uid=uid, resourceVersion=version(held), labels={"a": "b"})

        await place.kubernetes.release(PROBES, marked)
        assert await place.kubernetes.get(PROBES, place.space, "x") is None

    async def test_what_is_owned_goes_with_its_last_owner(self, place: Place) -> None:
        for name in ("owner", "other-owner"):
            await place.kubernetes.apply(CONFIG_MAPS, place.body(name, CONFIG_MAPS))
        owners = {
            name: {
                "apiVersion": CONFIG_MAPS.api_version,
                "kind": CONFIG_MAPS.name,
                "name": name,
                "uid": (await place.get(name, CONFIG_MAPS))["metadata"]["uid"],
            }
            for name in ("owner", "other-owner")
        }
        for name, its in (("one", ["owner"]), ("two", ["owner", "other-owner"])):
            body = place.body(name, CONFIG_MAPS)
            body["metadata"]["ownerReferences"] = [owners[owner] for owner in its]
            await place.kubernetes.apply(CONFIG_MAPS, body)

        await self._remove(place, owners["owner"])
        await place.gone("one", CONFIG_MAPS)
        assert await place.get("two", CONFIG_MAPS)
        await self._remove(place, owners["other-owner"])
        await place.gone("two", CONFIG_MAPS)

    async def test_what_is_left_behind_stays_without_its_owner(self, place: Place) -> None:
        await place.kubernetes.apply(CONFIG_MAPS, place.body("owner", CONFIG_MAPS))
        uid = (await place.get("owner", CONFIG_MAPS))["metadata"]["uid"]
        owner = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.name, "name": "owner"}
        body = place.body("one", CONFIG_MAPS)
        body["metadata"]["ownerReferences"] = [owner | {"uid": uid}]
        await place.kubernetes.apply(CONFIG_MAPS, body)
        before = await place.get("one", CONFIG_MAPS)

        await place.kubernetes.delete(
            CONFIG_MAPS, place.space, "owner", uid="another", orphans=True
        )
        assert await place.get("owner", CONFIG_MAPS)
        await place.kubernetes.delete(CONFIG_MAPS, place.space, "owner", uid=uid, orphans=True)
        await place.gone("owner", CONFIG_MAPS)

        after = await place.get("one", CONFIG_MAPS)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert not after["metadata"].get("ownerReferences")

    @staticmethod
    async def _remove(place: Place, owner: Json) -> None:
        await place.kubernetes.delete(CONFIG_MAPS, place.space, owner["name"], uid=owner["uid"])


class TwinPlace(Place):
    """In memory."""

    def __init__(self) -> None:
        self._twin = MemoryKubernetes()
        super().__init__(self._twin, "space")

    def put(self, kind: ObjectKind, body: Json) -> None:
        self._twin.put(kind, body)

    def delete(self, kind: ObjectKind, name: str) -> None:
        self._twin.mark_deleted(kind, self.space, name)


class TestTwin(Contract):
    """Against the twin."""

    @pytest.fixture
    def place(self) -> Place:
        return TwinPlace()
