"""A trouble says whether to ask again and whether it happened, by its class or by itself."""

import pickle

import pytest

from zonekeeper.bookie.segments.log import DiskFailedError
from zonekeeper.client.base.errors import Fenced, MetadataFailed
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError
from zonekeeper.metadata.store.errors import BadStoreUriError, NoStoreError, StoreError
from zonekeeper.operator.kubernetes.api import GoneError
from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.placement.ensembles.failures import Constraint, NotEnoughBookies
from zonekeeper.replication.orders.emptying import NotEmptiedError
from zonekeeper.wire.formats import errors as wire_errors

#: One of each tree; what it says; may it be retried, may it have happened.
TABLE = [
    (Trouble("x"), "x", False, False),
    (Refusal("x"), "x", False, False),
    (BadStoreUriError("x"), "x", False, False),
    (NoStoreError("x", store="s"), "s: x", False, False),
    (
        StoreError("x", store="s", maybe_applied=True),
        "s: x; the write may have been applied: read again to know",
        False,
        True,
    ),
    (MalformedError(Flaw.MISSING, "x"), "missing field: x", False, False),
    (wire_errors.Timeout("x"), "x", True, True),
    (
        NotEnoughBookies(Constraint.BOOKIES, "x"),
        f"{Constraint.BOOKIES.value}: x",
        True,
        False,
    ),
    (MetadataFailed("x", retryable=True, maybe_applied=True), "x", True, True),
    (Fenced("x", maybe_applied=False), "x", False, False),
    (DiskFailedError("x"), "x", False, False),
    (NotEmptiedError("x"), "x", True, True),
    (GoneError(404, "x", maybe_applied=True), "x", True, True),
]


@pytest.mark.parametrize(("error", "text", "retryable", "maybe_applied"), TABLE)
def test_every_tree_answers_both_questions(
    error: Trouble, text: str, retryable: bool, maybe_applied: bool
) -> None:
    assert str(error) == text
    assert (error.retryable, error.maybe_applied) == (retryable, maybe_applied)


def test_what_was_said_of_one_trouble_alone_goes_with_it_to_another_process() -> None:
    error = wire_errors.ReadOnly("the disk is full")
    error.retryable = True

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), copy.retryable) == (type(error), str(error), True)


def test_a_refusal_of_a_text_is_still_a_wrong_value() -> None:
    assert issubclass(BadStoreUriError, ValueError)
    assert issubclass(NoStoreError, StoreError)
    assert issubclass(NoStoreError, Refusal)
