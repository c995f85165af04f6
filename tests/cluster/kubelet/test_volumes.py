"""A pod's files change as on a real node: all at once, only where the data has, a part never."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kubelet import atomic_files, containers
from tests.cluster.kubelet.api import Api, Json
from tests.cluster.kubelet.containers import NotReadyError, Sources
from tests.cluster.kubelet.volumes import Volumes
from tests.support.certificates import Authority

SECRET: Json = {"name": "tls", "secret": {"secretName": "own"}}
MOUNT: Json = {"name": "tls", "mountPath": "/tls"}
BEFORE = {"tls.crt": b"one", "tls.key": b"one's"}
AFTER = {"tls.crt": b"two", "tls.key": b"two's"}


def texts(folder: Path) -> dict[str, str]:
    """Read a volume as a process does, which lists no name that begins with two dots."""
    return {
        path.name: path.read_text()
        for path in sorted(folder.iterdir())
        if not path.name.startswith("..")
    }


def sources(secrets: Json | None = None, config_maps: Json | None = None) -> Sources:
    return Sources(config_maps=config_maps or {}, secrets=secrets or {})


class Node:
    """One pod's volumes, without an API server: nothing here asks it."""

    def __init__(self, folder: Path, *volumes: Json) -> None:
        authority = Authority(folder / "pki")
        admin = authority.sign("admin", name="admin")
        cluster = {
            "server": "https://127.0.0.1:1",
            "certificate-authority": str(authority.pair.certificate),
        }
        user = {"client-certificate": str(admin.certificate), "client-key": str(admin.key)}
        config = folder / "kubeconfig"
        config.write_text(
            json.dumps({"clusters": [{"cluster": cluster}], "users": [{"user": user}]})
        )
        pod = {
            "metadata": {"namespace": "logs", "name": "log-a-0", "labels": {"app": "log"}},
            "spec": {"volumes": list(volumes)},
        }
        self.volumes = Volumes(Api(config), pod, folder / "pod")

    async def mounted(self, given: Sources, *mounts: Json) -> list[Path]:
        found = await self.volumes.mounts({"volumeMounts": list(mounts)}, given)
        return [Path(source) for source, _, _ in found]


def test_all_files_are_replaced_by_one_rename(tmp_path: Path) -> None:
    atomic_files.put(tmp_path, BEFORE)
    held = (tmp_path / atomic_files.DATA).resolve()
    assert texts(tmp_path) == {"tls.crt": "one", "tls.key": "one's"}
    assert {(tmp_path / name).readlink().parts[0] for name in BEFORE} == {atomic_files.DATA}

    assert atomic_files.put(tmp_path, AFTER)

    assert texts(tmp_path) == {"tls.crt": "two", "tls.key": "two's"}
    assert (tmp_path / atomic_files.DATA).resolve() != held
    assert not held.exists(), "nothing of before is left"


def test_where_nothing_has_changed_nothing_is_written(tmp_path: Path) -> None:
    atomic_files.put(tmp_path, BEFORE)
    before = (tmp_path / "tls.crt").stat()

    assert not atomic_files.put(tmp_path, dict(BEFORE))

    after = (tmp_path / "tls.crt").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_files_come_and_go_and_may_be_in_folders(tmp_path: Path) -> None:
    atomic_files.put(tmp_path, {"a": b"1", "in/b": b"2"})
    assert (tmp_path / "in" / "b").read_bytes() == b"2"

    atomic_files.put(tmp_path, {"in/c": b"3"})

    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("..")] == ["in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["c"]


@pytest.mark.parametrize("link", [atomic_files.DATA, "..data_tmp"])
def test_a_kubelet_that_ended_in_the_midst_leaves_nothing_in_the_way(
    tmp_path: Path, link: str
) -> None:
    """Before its rename the link is the new one; behind it, names and the old files are left."""
    atomic_files.put(tmp_path, BEFORE)
    other = tmp_path / "..2"
    other.mkdir()
    (other / "only").write_bytes(b"half")
    (tmp_path / link).unlink(missing_ok=True)
    (tmp_path / link).symlink_to("..2")

    atomic_files.put(tmp_path, {"only": b"half"})

    assert texts(tmp_path) == {"only": "half"}
    assert len(list(tmp_path.glob("..[0-9]*"))) == 1


async def test_a_changed_secret_reaches_the_volume_in_place(tmp_path: Path) -> None:
    node = Node(tmp_path, SECRET)
    (folder,) = await node.mounted(sources({"own": {"tls.crt": "one"}}), MOUNT)

    await node.volumes.refresh(sources({"own": {"tls.crt": "two"}}))

    assert texts(folder) == {"tls.crt": "two"}
    assert await node.mounted(sources({"own": {"tls.crt": "two"}}), MOUNT) == [folder]


async def test_a_part_of_a_volume_stays_as_it_was_until_its_container_starts_anew(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path, SECRET)
    part = MOUNT | {"subPath": "tls.crt", "mountPath": "/only.crt"}
    (file,) = await node.mounted(sources({"own": {"tls.crt": "one"}}), part)
    assert file.is_file()
    with file.open() as held:  # as a mount holds it
        await node.volumes.refresh(sources({"own": {"tls.crt": "two"}}))
        assert held.read() == "one"

    (again,) = await node.mounted(sources({"own": {"tls.crt": "two"}}), part)
    assert again.read_text() == "two"


async def test_a_projected_volume_has_all_of_its_sources(tmp_path: Path) -> None:
    label = {"path": "app", "fieldRef": {"fieldPath": "metadata.labels['app']"}}
    parts: list[dict[str, Any]] = [
        {"secret": {"name": "own", "items": [{"key": "tls.crt", "path": "certs/own.crt"}]}},
        {"configMap": {"name": "settings"}},
        {"downwardAPI": {"items": [label]}},
    ]
    node = Node(tmp_path, {"name": "all", "projected": {"sources": parts}})
    secrets, maps = {"own": {"tls.crt": "one", "tls.key": "k"}}, {"settings": {"a": "1", "b": "2"}}
    mount = {"name": "all", "mountPath": "/all"}
    (folder,) = await node.mounted(sources(secrets, maps), mount)
    assert (folder / "certs" / "own.crt").read_text() == "one"

    await node.volumes.refresh(sources({"own": {"tls.crt": "two"}}, {"settings": {"a": "3"}}))

    assert (folder / "certs" / "own.crt").read_text() == "two"
    names = {path.name for path in folder.iterdir() if not path.name.startswith("..")}
    assert names == {"certs", "a", "app"}


async def test_what_is_gone_stays_as_it_was_unless_it_is_optional(tmp_path: Path) -> None:
    perhaps = {"name": "perhaps", "configMap": {"name": "settings", "optional": True}}
    node = Node(tmp_path, SECRET, perhaps)
    given = sources({"own": {"tls.crt": "one"}}, {"settings": {"a": "1"}})
    mounts = (MOUNT, {"name": "perhaps", "mountPath": "/perhaps"})
    secret, optional = await node.mounted(given, *mounts)

    await node.volumes.refresh(sources())

    assert texts(secret) == {"tls.crt": "one"}
    assert texts(optional) == {}


async def test_a_pod_waits_for_an_object_and_for_a_key_that_it_names(tmp_path: Path) -> None:
    items = [{"key": "tls.crt", "path": "own.crt"}]
    node = Node(tmp_path, {"name": "tls", "secret": {"secretName": "own", "items": items}})
    with pytest.raises(NotReadyError, match="no secret named own"):
        await node.mounted(sources(), MOUNT)
    with pytest.raises(NotReadyError, match=r"no key tls\.crt"):
        await node.mounted(sources({"own": {"other": "x"}}), MOUNT)


async def test_a_volume_of_the_pods_own_is_never_touched(tmp_path: Path) -> None:
    node = Node(tmp_path, {"name": "scratch", "emptyDir": {}}, SECRET)
    scratch = {"name": "scratch", "mountPath": "/tmp"}
    given = sources({"own": {"tls.crt": "one"}})
    folder, _ = await node.mounted(given, scratch, MOUNT)
    (folder / "own").write_text("kept")

    await node.volumes.refresh(sources({"own": {"tls.crt": "two"}}))

    assert await node.mounted(given, scratch) == [folder]
    assert [path.name for path in folder.iterdir()] == ["own"]


def test_the_objects_that_a_pod_refers_to_are_those_of_its_volumes_too() -> None:
    parts = [{"secret": {"name": "two"}}, {"configMap": {"name": "three"}}]
    volumes = [SECRET, {"name": "all", "projected": {"sources": parts}}]
    pod: Json = {"spec": {"containers": [], "volumes": volumes}}
    assert containers.referenced(pod) == ({"three"}, {"own", "two"})
