"""A URI names a principal in one spelling, and anything else names nobody, with a reason."""

import pytest

from zonekeeper.wire.identity import principals
from zonekeeper.wire.identity.principals import NamesNobody, Principal, Role

HERE = "4f1c"


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("instance", [HERE, "any"])
def test_the_uri_of_a_principal_names_it(role: Role, instance: str) -> None:
    uri = principals.uri_of(instance, role, "ingest-1")
    assert uri == f"zonekeeper://{instance}/{role.value}/ingest-1"
    assert principals.parse(uri, HERE) == Principal(role, "ingest-1")


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("zonekeeper://other/admin/a", "is of another cluster; this one is 4f1c"),
        ("zonekeeper://ANY/admin/a", "is of another cluster"),
        ("zonekeeper://any/owner/a", "names no role that is known here"),
        ("zonekeeper://any/Admin/a", "is not zonekeeper://<instance>/<role>/<name>"),
        ("ZONEKEEPER://any/admin/a", "is not zonekeeper://"),
        ("zonekeeper://any/admin/", "is not zonekeeper://"),
        ("zonekeeper://any/admin", "is not zonekeeper://"),
        ("zonekeeper://any/admin/a/b", "is not zonekeeper://"),
        ("zonekeeper:///admin/a", "is not zonekeeper://"),
        ("zonekeeper://any/admin/a?role=client", "is not zonekeeper://"),
        ("zonekeeper://any/admin/a#b", "is not zonekeeper://"),
        ("zonekeeper://any:1/admin/a", "is not zonekeeper://"),
        ("zonekeeper://u@any/admin/a", "is not zonekeeper://"),
        ("zonekeeper://any/admin/%61", "is not zonekeeper://"),
        ("zonekeeper://any/admin/a\n", "is not zonekeeper://"),
        ("zonekeeper://any/admin/a\0", "is not zonekeeper://"),
        ("zonekeeper://any/admin/ä", "is not zonekeeper://"),
        (" zonekeeper://any/admin/a", "is not zonekeeper://"),
        ("zonekeeper://any/admin/" + "a" * 254, "is not zonekeeper://"),
        ("zonekeeper://any/admin/" + "a" * 600, "a name of 623 characters is not read"),
    ],
)
def test_any_other_uri_names_nobody(uri: str, why: str) -> None:
    found = principals.parse(uri, HERE)
    assert isinstance(found, NamesNobody)
    assert why in found.why


def test_a_uri_of_the_scheme_is_ours_in_any_case() -> None:
    assert principals.is_ours("zonekeeper://x")
    assert principals.is_ours("ZoneKeeper://x")
    assert not principals.is_ours("spiffe://zonekeeper/")


@pytest.mark.parametrize(("instance", "name"), [("a/b", "x"), ("a", "b/c"), ("", "x"), ("a", "")])
def test_what_no_uri_can_say_is_not_spelled(instance: str, name: str) -> None:
    with pytest.raises(ValueError, match="begin with a letter or a digit"):
        principals.uri_of(instance, Role.CLIENT, name)


def test_so_many_names_of_a_certificate_are_looked_at() -> None:
    assert principals.bounded(map(str, range(100))) == tuple(map(str, range(64)))


def test_a_name_that_is_too_long_is_cut_and_stays_too_long() -> None:
    uri = "zonekeeper://any/admin/" + "a" * 1_000_000
    (found,) = principals.bounded([uri])
    assert len(found) == 513
    assert isinstance(principals.parse(found, HERE), NamesNobody)
