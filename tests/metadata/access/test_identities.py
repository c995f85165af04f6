"""Identities as texts: what is read, what is refused, and that no hash is shown."""

import json

import pytest

from zonekeeper.metadata.access import identities
from zonekeeper.metadata.access.identities import BadIdentityError, Identities, StoreIdentity
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.formats.malformed import MalformedError, UnsupportedError

INSTANCE = "4f1c9c1e-3f0a-4be1-9d0c-5f6d2b6f7a10"
ADMIN = identities.of_secret(b"admin:secret")
#: As ZooKeeper's own DigestAuthenticationProvider computes it.
KNOWN = "digest:super:UdxDQl4f9v5oITwcAsO9bmWgHSI="


def test_a_password_has_the_name_that_zookeeper_gives_it() -> None:
    assert str(identities.of_secret(b"super:super123")) == KNOWN


@pytest.mark.parametrize(
    "text", [KNOWN, "x509:CN=bookie,O=Example", "sasl:bookie/host@REALM", "x509:CN=a:b"]
)
def test_an_identity_is_read_as_it_is_written(text: str) -> None:
    assert str(identities.parse_identity(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("world:anyone", "begins with its scheme"),
        ("auth:", "begins with its scheme"),
        ("ip:10.0.0.1", "begins with its scheme"),
        ("bookie", "begins with its scheme"),
        ("x509:", "1 to 256 bytes"),
        ("x509:" + "a" * 257, "1 to 256 bytes"),
        ("x509:CN=a\n", "can be printed"),
        ("x509: CN=a", "no white space"),
        ("digest:bookie:secret", "metadata identity"),
        ("digest:bookie", "metadata identity"),
        ("digest::UdxDQl4f9v5oITwcAsO9bmWgHSI=", "metadata identity"),
        ("digest:own.1:UdxDQl4f9v5oITwcAsO9bmWgHSI=", "one bookie's own"),
    ],
)
def test_what_may_have_no_role_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadIdentityError, match=why) as refused:
        identities.parse_identity(text)
    assert "secret" not in str(refused.value)


def test_a_file_is_read_line_by_line() -> None:
    found = identities.parse_lines(f"# ours\n\nadmin {ADMIN}\n  bookie x509:CN=b\nbookie x509:CN=b")
    assert found.roles == {
        StoreRole.ADMIN: (ADMIN,),
        StoreRole.BOOKIE: (StoreIdentity("x509", "CN=b"),),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("bookie x509:CN=b", "no identity has the role admin"),
        ("", "no identity has the role admin"),
        ("admin x509:CN=a\nroot x509:CN=b", "line 2: 'root' is no role"),
        ("admin x509:CN=a\n\nclient world:anyone", "line 3: an identity begins"),
        ("\n".join(f"admin x509:CN={n}" for n in range(33)), "33 identities; at most 32"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(BadIdentityError, match=why):
        identities.parse_lines(text)


def test_the_node_is_read_as_it_is_written_and_keeps_what_a_newer_program_wrote() -> None:
    ours = Identities(roles={StoreRole.ADMIN: (ADMIN,)})
    raw = identities.render(ours, INSTANCE)
    assert identities.parse(raw) == ours
    newer = json.loads(raw) | {"since": 7}
    again = identities.render(identities.parse(json.dumps(newer).encode()), INSTANCE)
    assert json.loads(again) == newer


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format": 2}, UnsupportedError),
        ({"format": "1"}, MalformedError),
        ({"roles": []}, MalformedError),
        ({"roles": {}}, MalformedError),
        ({"roles": {"admin": "x509:CN=a"}}, MalformedError),
        ({"roles": {"admin": ["world:anyone"]}}, MalformedError),
        ({"roles": {"admin": ["x509:CN=a"], "root": ["x509:CN=b"]}}, MalformedError),
    ],
)
def test_a_node_that_breaks_the_rules_is_no_answer(
    change: dict[str, object], error: type[Exception]
) -> None:
    raw = identities.render(Identities(roles={StoreRole.ADMIN: (ADMIN,)}), INSTANCE)
    with pytest.raises(error):
        identities.parse(json.dumps(json.loads(raw) | change).encode())


def test_no_hash_is_shown() -> None:
    assert ADMIN.shown == "digest:admin"
