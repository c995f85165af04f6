"""docs/security.md has the table of rights as the code has it, and no other one."""

from tests.support.checkout_root import ROOT
from zonekeeper.wire.identity import rights
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.identity.rights import Grant, Operation

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8").splitlines()
HEAD = f"| operation | {' | '.join(role.value for role in Role)} |"
CELLS = {Grant.NO: "", Grant.KEY: "key", Grant.YES: "yes"}


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
