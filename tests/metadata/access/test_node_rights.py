"""The table of rights, by itself: complete, least, and as wide as ZooKeeper forces it to be."""

import pytest

from tests.metadata.access.trying import NEIGHBOURS, SAMPLES, kind
from zonekeeper.metadata.access import node_rights
from zonekeeper.metadata.access.node_rights import KINDS, NodePermission, NodeUse, StoreRole
from zonekeeper.metadata.formats import ledger_paths, underreplication_format
from zonekeeper.metadata.store.layout import OWN_SUFFIX
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.identity.principals import Role

OTHERS = [role for role in StoreRole if role is not StoreRole.ADMIN]


def test_the_store_knows_the_roles_that_bookies_know() -> None:
    assert [role.value for role in StoreRole] == [role.value for role in Role]
    assert node_rights.OWN_TREE == OWN_SUFFIX


def test_there_is_a_sample_of_each_kind() -> None:
    assert sorted(SAMPLES) == sorted(each.name for each in KINDS)
    for name, suffix in SAMPLES.items():
        found = node_rights.kind_of(suffix)
        assert found is not None
        assert found.name == name


@pytest.mark.parametrize(
    ("suffix", "name"),
    [
        ("/available/readonly", "registrations"),
        ("/available/readonly/a-0", "registration"),
        ("/idgen", "counter"),
        ("/idgen/ID-0000000007", "id"),
        ("/INSTANCEID", "fact"),
        ("/underreplication/LAYOUT", "fact"),
        ("/underreplication/replicascheckctime", "repair-note"),
        (".zonekeeper/zone-watch/v-1", "vote"),
        (".zonekeeper/log-keeper", "votes"),
        (".zonekeeper/logs/a/b/cursor.x", "log"),
        (".zonekeeper/deleted-logs/aa/bb", "deleted-log"),
        *[(ledger_paths.path(LedgerId(n)), "ledger") for n in (0, 2**31 - 2, 2**31, 2**63 - 1)],
        (
            "/underreplication/ledgers" + underreplication_format.ledger_path(LedgerId(7)),
            "mark",
        ),
    ],
)
def test_a_path_has_its_kind(suffix: str, name: str) -> None:
    found = node_rights.kind_of(suffix)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "suffix",
    ["/other", ".zonekeeper/other", "/00/0000/X0001", "/0000", ".zonekeeperX", "X", "/cookies/a/b"],
)
def test_a_path_of_no_kind_is_the_admins(suffix: str) -> None:
    assert node_rights.kind_of(suffix) is None
    for role in OTHERS:
        assert node_rights.permissions(None, role) is NodePermission.NONE
    assert NodePermission.ADMIN in node_rights.permissions(None, StoreRole.ADMIN)


def test_only_an_admin_changes_acls() -> None:
    for each in KINDS:
        for role in OTHERS:
            assert NodePermission.ADMIN not in node_rights.permissions(each, role)


def test_each_directory_of_a_ledger_stands_under_a_kind_that_makes_it() -> None:
    for ledger_id in (0, 2**31):
        path = ledger_paths.path(LedgerId(ledger_id))
        while path:
            above = path.rpartition("/")[0]
            name, over = node_rights.kind_of(path), node_rights.kind_of(above)
            assert name is not None
            assert over is not None
            assert over.name in name.under
            path = above


def test_each_kind_stands_under_the_kinds_that_it_names() -> None:
    for name, suffix in SAMPLES.items():
        if suffix not in ("", ".zonekeeper"):
            above = node_rights.kind_of(suffix.rpartition("/")[0])
            assert above is not None
            assert above.name in kind(name).under, name


def test_an_operator_can_remove_a_root() -> None:
    for each in KINDS:
        assert NodePermission.READ in node_rights.permissions(each, StoreRole.OPERATOR)
        if each.name not in ("root", "own-root"):
            assert StoreRole.OPERATOR in each.roles_for(NodeUse.DELETE), each.name


def test_what_owners_alone_may_write() -> None:
    system = StoreRole.OPERATOR, StoreRole.ADMIN
    for use in (NodeUse.WRITE, NodeUse.MAKE, NodeUse.DELETE):
        assert kind("policy").roles_for(use) == system
    assert kind("identities").roles_for(NodeUse.WRITE) == (StoreRole.ADMIN,)
    assert kind("gate").roles_for(NodeUse.WRITE) == (StoreRole.AUTORECOVERY, StoreRole.ADMIN)
    assert StoreRole.MONITOR not in kind("ledger").roles_for(NodeUse.READ)
    for each in KINDS:
        for use in (NodeUse.WRITE, NodeUse.MAKE, NodeUse.DELETE):
            assert StoreRole.MONITOR not in each.roles_for(use)


def test_a_neighbour_widens_a_right_only_where_it_is_known() -> None:
    """ZooKeeper asks the node above, so a row may grant more than it says."""
    wider = set()
    for each in KINDS:
        for role in OTHERS:
            for use, bit in (
                (NodeUse.MAKE, NodePermission.CREATE),
                (NodeUse.DELETE, NodePermission.DELETE),
            ):
                below = [one for one in KINDS if each.name in one.under]
                granted = bit in node_rights.permissions(each, role)
                if granted and not all(role in one.grants[use] for one in below):
                    wider.add((role, use, each.name))
    assert wider == NEIGHBOURS
