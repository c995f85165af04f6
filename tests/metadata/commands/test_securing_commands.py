"""``metadata secure`` and ``identity``, and ``cluster init --identities``, as people call them."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.support import roles, zookeeper
from tests.support.certificates import Authority, certified
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.commands.cluster import cluster as cluster_group
from zonekeeper.metadata.commands.saving import metadata as metadata_group

WORD = "open sesame"


def call(group: click.Group, *words: str) -> Result:
    return CliRunner().invoke(group, words, catch_exceptions=False)


def identity(*words: str) -> Result:
    return call(metadata_group, "identity", *words)


def secure(*words: str) -> Result:
    return call(metadata_group, "secure", *words)


@pytest.fixture
def identities_file(tmp_path: Path) -> Path:
    path = tmp_path / "identities"
    path.write_text("".join(f"{role} {roles.of(role)}\n" for role in StoreRole))
    return path


def auth_file(folder: Path, role: StoreRole) -> Path:
    path = folder / f"{role}.auth"
    path.write_text(f"{roles.secret(role)}\n")
    return path


def test_an_identity_is_named_by_the_hash_of_its_password(tmp_path: Path) -> None:
    file = tmp_path / "auth"
    file.write_text("super:super123\nbefore:another\n")
    said = identity("--auth-file", str(file))
    assert said.exit_code == 0
    # ZooKeeper's documentation has this pair as its example.
    assert said.stdout == "digest:super:UdxDQl4f9v5oITwcAsO9bmWgHSI=\n"
    assert "super123" not in said.output


def test_an_identity_is_named_by_the_subject_of_its_certificate(tmp_path: Path) -> None:
    files = certified(Authority(tmp_path), "bookie-1", "bookie-1")
    assert identity("--certificate", str(files.certificate)).stdout == "x509:CN=bookie-1\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{WORD}\n", "does not hold one line 'user:password'"),
        ("", "does not hold one line 'user:password'"),
        (f"a:{WORD}\n" * 5, "does not hold one line 'user:password'"),
        (f"a:{WORD * 200}\n", "does not hold one line 'user:password'"),
    ],
    ids=["no user", "empty", "too many lines", "too long"],
)
def test_a_file_that_holds_no_password_is_refused_and_not_shown(
    text: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "auth"
    file.write_text(text)
    said = identity("--auth-file", str(file))
    assert said.exit_code in (1, 2)
    assert why in said.stderr
    assert WORD not in said.output


def test_an_identity_is_asked_of_one_file_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "auth"
    file.write_text(f"a:{WORD}")
    for words in ((), ("--auth-file", str(file), "--certificate", str(file))):
        said = identity(*words)
        assert said.exit_code == 2
        assert "give one of --auth-file and --certificate" in said.stderr
    assert "'auth-file' cannot be read" in identity("--auth-file", str(tmp_path / "none")).stderr
    for path in (file, tmp_path / "none"):
        said = identity("--certificate", str(path))
        assert said.exit_code in (1, 2)
        assert str(path) in said.stderr
        assert WORD not in said.output


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("king digest:a:b", "'king' is no role"),
        ("admin a:b", "an identity begins with its scheme"),
        (f"admin digest:admin:{WORD}", "is not a user and the hash of a password"),
        ("# nobody", "no identity has the role admin"),
    ],
)
def test_a_line_that_names_no_identity_is_refused_before_anything_is_made(
    line: str, why: str, tmp_path: Path
) -> None:
    file, root = tmp_path / "identities", tmp_path / "meta.db"
    file.write_text(f"# ours\n{line}\n")
    words = ("--metadata", f"sqlite://{root}", "--identities", str(file))
    for said in (call(cluster_group, "init", *words), secure(*words)):
        assert said.exit_code == 2
        assert why in said.stderr
        assert "line 2" in said.stderr or "no identity has" in said.stderr
        assert WORD not in said.output
        assert not root.exists()


def test_a_store_without_acls_is_not_secured(tmp_path: Path, identities_file: Path) -> None:
    address = f"sqlite://{tmp_path}/meta.db"
    made = call(cluster_group, "init", "--metadata", address, "--identities", str(identities_file))
    assert made.exit_code == 2
    assert "has no ACLs" in made.stderr
    assert call(cluster_group, "init", "--metadata", address).exit_code == 0
    said = secure("--metadata", address, "--identities", str(identities_file))
    assert said.exit_code == 2
    assert "has no ACLs" in said.stderr


def test_the_way_back_takes_no_identities(identities_file: Path) -> None:
    said = secure("--metadata", "memory:", "--open", "--identities", str(identities_file))
    assert said.exit_code == 2
    assert "--open takes no --identities" in said.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[zookeeper.Ensemble]:
    with zookeeper.single() as ensemble:
        yield ensemble


@pytest.mark.contracts
def test_a_root_is_made_with_its_identities_and_answers_to_them(
    server: zookeeper.Ensemble, tmp_path: Path, identities_file: Path
) -> None:
    root = f"zk://{server.addresses}/{uuid.uuid4().hex}"
    as_admin = f"{root}?auth-file={auth_file(tmp_path, StoreRole.ADMIN)}"
    as_monitor = f"{root}?auth-file={auth_file(tmp_path, StoreRole.MONITOR)}"
    words = ("--identities", str(identities_file))
    assert call(cluster_group, "init", "--metadata", as_admin, *words).exit_code == 0
    assert call(cluster_group, "info", "--metadata", as_monitor).exit_code == 0
    stranger = call(cluster_group, "info", "--metadata", root)
    assert stranger.exit_code != 0
    assert "it shows no identity" in stranger.stderr
    dry = secure("--metadata", as_admin, "--dry-run", "--output", "json")
    assert dry.exit_code == 0
    assert json.loads(dry.stdout)["changed"] == 0


@pytest.mark.contracts
def test_a_root_that_stands_is_secured_in_a_second_try_and_opened_again(
    server: zookeeper.Ensemble, tmp_path: Path, identities_file: Path
) -> None:
    root = f"zk://{server.addresses}/{uuid.uuid4().hex}"
    as_admin = f"{root}?acl=open&auth-file={auth_file(tmp_path, StoreRole.ADMIN)}"
    as_client = f"{root}?acl=open&auth-file={auth_file(tmp_path, StoreRole.CLIENT)}"
    words = ("--identities", str(identities_file))
    assert call(cluster_group, "init", "--metadata", as_admin).exit_code == 0
    unknown = secure("--metadata", as_admin)
    assert unknown.exit_code == 2
    assert "has no identities yet" in unknown.stderr
    of_client = secure("--metadata", as_client, *words)
    assert of_client.exit_code == 2
    assert "the identities give none of ours the role admin" in of_client.stderr
    dry = secure("--metadata", as_admin, *words, "--dry-run")
    assert dry.exit_code == 0
    assert "would get another ACL" in dry.stdout
    done = json.loads(secure("--metadata", as_admin, *words, "--output", "json").stdout)
    assert done["changed"] > 0
    assert done["settled"]
    assert "0 would get another ACL" in secure("--metadata", as_admin, "--dry-run").stdout
    assert secure("--metadata", as_admin, "--open").exit_code == 0
    assert call(cluster_group, "info", "--metadata", root).exit_code == 0
