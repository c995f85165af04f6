"""``spec.metadata`` beside its address: the rules between its fields, and what comes of them."""

import re

import pytest

from tests.operator.resources import URI, resource
from tests.support import roles
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.stores import uri
from zonekeeper.operator.cluster import desired, store_access
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.cluster.store_access import StoreAccess, StoreProof

NAMES = {"bookies": "zk-bookies", "autorecovery": "zk-repair", "operator": "zk-operator"}
ADMIN = f"admin {roles.of(StoreRole.ADMIN)}"


def read(**fields: object) -> StoreAccess:
    found = desired.read(resource(metadata={"uri": URI, **fields}))
    assert isinstance(found, Desired), found
    return found.store


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"credentials": {"bookies": "a"}}, "spec.metadata.credentials.*must have all of bookies"),
        ({"tls": True}, "spec.metadata.tls: True: needs metadata.credentials|needs metadata.cred"),
        ({"proof": "Certificate", "credentials": NAMES}, "spec.metadata.proof.*needs TLS"),
        ({"identities": ADMIN}, "spec.metadata.identities.*needs metadata.credentials"),
        (
            {"identities": "bookie x509:CN=b", "credentials": NAMES},
            "spec.metadata.identities.*no identity has the role admin",
        ),
        (
            {"identities": f"{ADMIN}\n" * 600, "credentials": NAMES},
            "spec.metadata.identities.*at most 8192 characters",
        ),
        (
            {"identities": "admin digest:a:secret", "credentials": NAMES},
            "spec.metadata.identities.*line 1",
        ),
        (
            {"identities": f"{ADMIN}\n" * 200, "credentials": NAMES},
            "spec.metadata.identities.*at most 8192 characters",
        ),
        ({"credentials": {**NAMES, "bookies": "../x"}}, "spec.metadata.credentials.bookies"),
        ({"proof": "Ticket"}, "spec.metadata.proof"),
    ],
)
def test_a_rule_that_is_broken_is_said(fields: dict[str, object], why: str) -> None:
    found = desired.read(resource(metadata={"uri": URI, **fields}))
    assert isinstance(found, RefusedResource)
    assert any(re.search(why, reason) for reason in found.reasons), found.reasons
    assert "secret" not in str(found.reasons).replace("zk-", "")


def test_without_credentials_nothing_changes_and_it_is_said() -> None:
    access = read()
    assert access == store_access.OPEN
    assert store_access.address(URI, access) == URI
    assert store_access.mounts(access) == []
    assert "without identities" in store_access.unguarded(access)


@pytest.mark.parametrize("proof", StoreProof)
def test_an_address_names_the_files_of_what_is_shown(proof: StoreProof) -> None:
    access = read(credentials=NAMES, tls=True, proof=str(proof))
    parsed = uri.parse(store_access.address(URI, access))
    assert isinstance(parsed, uri.ZooKeeperAddress)
    assert parsed.tls is not None
    assert str(parsed.tls.ca) == "/metadata-credentials/ca.crt"
    assert (parsed.auth_file is None) is (proof is StoreProof.CERTIFICATE)
    assert (parsed.tls.key is None) is (proof is StoreProof.PASSWORD)
    assert parsed.acl is uri.AddressAcl.OPEN
    assert store_access.unguarded(access) == ""
    assert "ca.crt" in store_access.needed(access)


def test_a_password_without_tls_is_said() -> None:
    assert "without TLS" in store_access.unguarded(read(credentials=NAMES))
