"""A bookie of a step is well again only when the metadata store shows a whole new start of it."""

import pytest

from zonekeeper.metadata.bookies.bookie_records import BookieRecord
from zonekeeper.operator.roll import rolling
from zonekeeper.operator.roll.memory import TakenBookie
from zonekeeper.operator.roots.planned import WorkFacts
from zonekeeper.operator.roots.roots import RootFound, Unreachable
from zonekeeper.placement.base.ids import BookieId

BOOKIE = BookieId("log-a-0")
TAKEN = TakenBookie(bookie=BOOKIE, uid="uid-1", boot_epoch=3)


def root(
    record: BookieRecord | None, *, is_registered: bool = True, is_read_only: bool = False
) -> RootFound:
    return RootFound(
        instance="i",
        policy=None,
        locations={BOOKIE: None},
        registered=frozenset({BOOKIE} if is_registered else ()),
        read_only=frozenset({BOOKIE} if is_read_only else ()),
        work=WorkFacts(records={BOOKIE: record}, marked=0, first_marked=None),
    )


@pytest.mark.parametrize(
    ("found", "lacks"),
    [
        (root(BookieRecord(boot_epoch=4)), None),
        (root(BookieRecord(boot_epoch=3)), "no new start of it is noted"),
        (root(None), "no new start of it is noted"),
        (root(BookieRecord(boot_epoch=4), is_registered=False), "it is not registered"),
        (root(BookieRecord(boot_epoch=4), is_read_only=True), "it is read-only"),
        (
            root(BookieRecord(boot_epoch=4, lost_data=4)),
            "it has lost data, and fills in what is missing",
        ),
        (Unreachable("nobody answers"), "the metadata store was not read"),
    ],
)
def test_what_a_bookie_lacks_to_be_well_again(found: object, lacks: str | None) -> None:
    assert rolling._lacks_in_root(TAKEN, found) == lacks
