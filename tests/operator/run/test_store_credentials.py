"""A resource that names credentials for ZooKeeper: who shows what, and what a root gets."""

import base64
from pathlib import Path

from tests.operator.resources import SPACE, URI
from tests.operator.worlds import World
from tests.support import roles
from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.identities import StoreIdentity
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.saving import securing
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, PODS, SECRETS, STATEFUL_SETS, Json
from zonekeeper.operator.roots.secret_files import SecretFiles

NAMES = {"bookies": "zk-bookies", "autorecovery": "zk-repair", "operator": "zk-operator"}
LINES = "\n".join(f"{role} {roles.of(role)}" for role in StoreRole)
METADATA = {"uri": URI, "credentials": NAMES, "identities": LINES}


class GuardedWorld(World):
    """A world in which the operator has the identities that its address names."""

    def __init__(self, metadata: Json) -> None:
        super().__init__(metadata=metadata)
        self.shown: list[str] = []

    async def open_for_operator(self, address: str) -> MetadataStore:
        self.shown.append(address)
        parsed = uri.parse(address)
        assert isinstance(parsed, uri.ZooKeeperAddress)
        mine: tuple[StoreIdentity, ...] = ()
        if parsed.auth_file is not None:
            mine = (identities.of_secret(parsed.auth_file.read_bytes().strip()),)
        return MemoryStore(self.server, root=parsed.root, mine=mine)

    async def open(self, address: str) -> MetadataStore:
        return roles.opened(self.server, StoreRole.ADMIN, self.root_of(address))

    def give(self, **values: str) -> None:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}
        meta = {"namespace": SPACE, "name": NAMES["operator"]}
        self.kubernetes.put(SECRETS, {"metadata": meta, "data": data})


async def test_a_new_root_has_acls_from_its_first_node_on() -> None:
    world = GuardedWorld(METADATA)
    world.give(auth=roles.secret(StoreRole.OPERATOR))
    await world.settle()
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    store = roles.opened(world.server, StoreRole.ADMIN, world.root_of(URI))
    report = await securing.secure(await clusters.open_cluster(store), None, dry_run=True)
    assert (report.changed, report.made, report.strange) == (0, 0, 0)
    assert report.nodes > 40


async def test_pods_get_files_and_an_address_that_names_them() -> None:
    world = GuardedWorld(METADATA)
    world.give(auth=roles.secret(StoreRole.OPERATOR))
    await world.settle()
    for kind, secret in ((STATEFUL_SETS, "zk-bookies"), (DEPLOYMENTS, "zk-repair")):
        for item in await world.kubernetes.list(kind, SPACE):
            pod = item["spec"]["template"]["spec"]
            volume = next(one for one in pod["volumes"] if one["name"] == "metadata-credentials")
            assert volume["secret"] == {"secretName": secret}
            (container,) = pod["containers"]
            said = {one["name"]: one.get("value") for one in container["env"]}
            wanted = f"{URI}?acl=open&auth-file=/metadata-credentials/auth"
            assert said["ZONEKEEPER_METADATA"] == wanted
            mounts = {one["name"]: one for one in container["volumeMounts"]}
            assert mounts["metadata-credentials"]["readOnly"]
    everything = str([await world.kubernetes.list(kind, SPACE) for kind in (STATEFUL_SETS, PODS)])
    status = str((await world.get())["status"])
    for role in StoreRole:
        assert roles.secret(role) not in everything + status + str(world.shown)


async def test_a_secret_that_is_missing_is_named_and_nothing_is_made() -> None:
    world = GuardedWorld(METADATA)
    await world.settle()
    told = (await world.get())["status"]["conditions"]
    assert any("Secret zk-operator" in one["message"] for one in told)
    assert any("is not there: make it" in one["message"] for one in told)
    assert world.shown == []
    world.give(other="x")
    await world.settle()
    told = (await world.get())["status"]["conditions"]
    assert any("Secret zk-operator" in one["message"] and "lacks auth" in one["message"]
               for one in told)  # fmt: skip
    world.give(auth=roles.secret(StoreRole.OPERATOR))
    await world.settle()
    assert (await world.conditions())["Ready"] == ("True", "AllReady")


async def test_other_credentials_open_the_store_anew() -> None:
    world = GuardedWorld(METADATA)
    world.give(auth=roles.secret(StoreRole.OPERATOR))
    await world.settle()
    before = len(world.shown)
    world.give(auth="operator:guessed")
    await world.turn()
    assert len(world.shown) == before + 1
    told = (await world.get())["status"]["conditions"]
    assert any("needs the role" in one["message"] for one in told)
    assert not any("guessed" in one["message"] for one in told)


async def test_an_operator_can_remove_a_guarded_root() -> None:
    world = GuardedWorld(METADATA)
    world.give(auth=roles.secret(StoreRole.OPERATOR))
    await world.settle()
    seen, _ = await world.look()
    assert seen.root is not None
    root = world.reconciler._root
    instance = (await world.get())["status"]["instance"]
    await root.remove(URI, instance=instance)
    assert not [path for path in world.server._nodes if path.startswith("/ledgers")]


def test_a_secret_is_a_file_on_no_disk() -> None:
    files = SecretFiles()
    at = files.hold({"auth": b"user:password"})
    assert Path(at["auth"]).read_bytes() == b"user:password"
    assert files.hold({"auth": b"user:password"}) == at
    assert files.turn == 1
    other = files.hold({"auth": b"other:password"})
    assert Path(other["auth"]).read_bytes() == b"other:password"
    assert files.turn == 2
    files.close()
    assert files.hold({"auth": b"user:password"})
    assert files.turn == 3
    files.close()
