"""docs/security.md has the table of rights as the code has it, and no other one."""

from tests.support.checkout_root import ROOT
from zonekeeper.metadata.access import node_rights
from zonekeeper.metadata.access.node_rights import NodeKind, NodeUse, StoreRole
from zonekeeper.wire.identity import rights
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.identity.rights import Grant, Operation

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8").splitlines()
HEAD = f"| operation | {' | '.join(role.value for role in Role)} |"
CELLS = {Grant.NO: "", Grant.OWN: "own", Grant.KEY: "key", Grant.YES: "yes"}


def matrix() -> list[str]:
    """Give the lines of the table; the page has them as they are."""
    rows = []
    for operation in Operation:
        cells = (CELLS[rights.grant(role, operation)] for role in Role)
        rows.append(f"| `{operation.value}`: {rights.MEANINGS[operation]} | {' | '.join(cells)} |")
    return [HEAD, "|---" * (len(Role) + 1) + "|", *rows]


def test_the_page_has_the_table() -> None:
    wanted = matrix()
    start = PAGE.index(HEAD) if HEAD in PAGE else 0
    found = PAGE[start : start + len(wanted)]
    assert found == wanted, "docs/security.md: put in:\n" + "\n".join(wanted)
    assert not PAGE[start + len(wanted)].startswith("|"), "a row too many"


def test_the_page_says_what_each_role_is() -> None:
    start = PAGE.index("| role | is for |") + 2
    rows = PAGE[start : start + len(Role)]
    assert [row.split("`")[1] for row in rows] == [role.value for role in Role]
    assert not PAGE[start + len(Role)].startswith("|"), "a row too many"


STORE_ROLES = [role for role in StoreRole if role is not StoreRole.ADMIN]
STORE_HEAD = f"| kind of node | {' | '.join(STORE_ROLES)} |"
LETTERS = {NodeUse.READ: "r", NodeUse.WRITE: "w", NodeUse.MAKE: "m", NodeUse.DELETE: "d"}


def store_matrix() -> list[str]:
    """Give the lines of the table of nodes; the page has them as they are."""

    def cell(kind: NodeKind, role: StoreRole) -> str:
        return "".join(LETTERS[use] for use in NodeUse if role in kind.grants[use])

    rows = [
        f"| `{kind.name}`: {kind.meaning} | {' | '.join(cell(kind, one) for one in STORE_ROLES)} |"
        for kind in node_rights.KINDS
        if not kind.meaning.startswith("the directory of: ")
    ]
    return [STORE_HEAD, "|---" * (len(STORE_ROLES) + 1) + "|", *rows]


def test_the_page_has_the_table_of_nodes() -> None:
    wanted = store_matrix()
    start = PAGE.index(STORE_HEAD) if STORE_HEAD in PAGE else 0
    found = PAGE[start : start + len(wanted)]
    assert found == wanted, "docs/security.md: put in:\n" + "\n".join(wanted)
    assert not PAGE[start + len(wanted)].startswith("|"), "a row too many"
