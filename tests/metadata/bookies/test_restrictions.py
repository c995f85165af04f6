"""What keeps a bookie from new data: who and since when, of the record and of what it says."""

import pytest

from tests.metadata.bookies.test_bookies import A
from zonekeeper.metadata.bookies import bookie_records, restrictions
from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.bookies.restrictions import DRAINING, READ_ONLY, UNSAID, Restriction
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.service_info import WALL_MS_MAX, ReadOnlyReason

ANNA = Mark(at_ms=1_000, by="anna", reason="its disk is slow")
BOB = Mark(at_ms=2_000, by="bob", reason="the rack goes")
FULL = ReadOnlyReason(reason="the device is full: 96 % used", since_ms=7)
TOLD = ReadOnlyReason(reason="by a person's order", by_person=True, since_ms=9)


def of_anna(what: str) -> Restriction:
    return Restriction(what=what, reason=ANNA.reason, by="anna", since_ms=1_000)


OF_BOB = Restriction(what=DRAINING, reason=BOB.reason, by="bob", since_ms=2_000)
ITS_OWN = Restriction(what=READ_ONLY, reason=FULL.reason, by=A, since_ms=7)


@pytest.mark.parametrize(
    ("record", "published", "read_only", "found"),
    [
        (BookieRecord(), (), False, ()),
        (BookieRecord(), (FULL,), True, (ITS_OWN,)),
        (BookieRecord(read_only=ANNA), (TOLD,), True, (of_anna(READ_ONLY),)),
        (BookieRecord(read_only=ANNA), (TOLD, FULL), True, (of_anna(READ_ONLY), ITS_OWN)),
        (BookieRecord(draining=BOB), (), False, (OF_BOB,)),
        # An order reaches a draining bookie from the draining.
        (
            BookieRecord(draining=BOB),
            (TOLD,),
            True,
            (OF_BOB, Restriction(what=READ_ONLY, reason=BOB.reason, by="bob", since_ms=2_000)),
        ),
        (BookieRecord(draining=BOB, read_only=ANNA), (TOLD,), True, (OF_BOB, of_anna(READ_ONLY))),
        # An older program gave the order: it is a person, and it is not known who.
        (
            BookieRecord(),
            (TOLD,),
            True,
            (Restriction(what=READ_ONLY, reason=TOLD.reason, by=None, since_ms=9),),
        ),
        # An older bookie says nothing: it is never without a restriction.
        (
            BookieRecord(),
            (),
            True,
            (Restriction(what=READ_ONLY, reason=UNSAID, by=A, since_ms=None),),
        ),
        (BookieRecord(read_only=ANNA), (), True, (of_anna(READ_ONLY),)),
        # A note of a bookie that takes writes is left over, and says nothing.
        (BookieRecord(read_only=ANNA), (), False, ()),
    ],
)
def test_s151_what_keeps_a_bookie_from_new_data(
    record: BookieRecord,
    published: tuple[ReadOnlyReason, ...],
    *,
    read_only: bool,
    found: tuple[Restriction, ...],
) -> None:
    assert restrictions.of_bookie(A, record, published, read_only=read_only) == found


def test_s151_it_is_said_in_a_line_with_what_is_known() -> None:
    assert str(of_anna(READ_ONLY)) == (
        "read-only (by anna: its disk is slow), since 1970-01-01T00:00:01+00:00"
    )
    unknown = Restriction(what=READ_ONLY, reason="why", by=None, since_ms=None)
    assert str(unknown) == "read-only (by a person: why)"
    far = Restriction(what=READ_ONLY, reason="why", by="x", since_ms=WALL_MS_MAX * 9)
    assert "since 9999-12-31" in str(far)


async def test_s151_an_order_is_noted_beside_the_rest_and_taken_back(cluster: Cluster) -> None:
    await bookie_records.drain(cluster, A, BOB)
    assert await bookie_records.order_read_only(cluster, A, ANNA) is None
    assert await bookie_records.read(cluster, A) == BookieRecord(draining=BOB, read_only=ANNA)

    assert await bookie_records.order_read_only(cluster, A, BOB, keep=True) == ANNA
    assert (await bookie_records.read(cluster, A)).read_only == ANNA, "the first order stands"
    assert await bookie_records.order_read_only(cluster, A, BOB) == ANNA
    assert (await bookie_records.read(cluster, A)).read_only == BOB

    assert await bookie_records.order_read_only(cluster, A, None, keep=True) == BOB
    assert await bookie_records.read(cluster, A) == BookieRecord(draining=BOB)
