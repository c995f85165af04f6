"""Every error of ours goes to another process as it is: text, answers, notes and attributes."""

import importlib
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from typing import Final, cast

import pytest

import zonekeeper
from zonekeeper.client.base import errors
from zonekeeper.log.base.errors import LogEnded
from zonekeeper.metadata.commands.opening import StoreAwayError
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.operator.kubernetes.api import KubernetesError
from zonekeeper.operator.plugin.ordering import NotAnsweredError
from zonekeeper.placement.base.fields import InvalidFieldsError, Problem
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.ensembles.failures import (
    Constraint,
    IllegalPlacement,
    NotEnoughBookies,
)
from zonekeeper.placement.policy.rules_data import NewerFormatError
from zonekeeper.replication.repair.delivery import TargetFailedError
from zonekeeper.replication.repair.repair_metrics import RepairStoppedError, RepairTrouble
from zonekeeper.wire.formats import errors as wire_errors
from zonekeeper.wire.formats.entries import EntryError, EntryFault
from zonekeeper.wire.formats.errors import Fault, FormatError, ProtocolError, UnknownError

#: How an error is made, by the class whose ``__init__`` makes it.
MAKERS: Final[dict[type, Callable[[Callable[..., Trouble]], Trouble]]] = {
    Exception: lambda kind: kind("text"),
    errors.ClientError: lambda kind: kind("text", maybe_applied=True),
    errors.ForkedAfterUse: lambda kind: kind(),
    LogEnded: lambda kind: kind("text", maybe_applied=False),
    errors.LedgerOpen: lambda kind: kind(LedgerId(7), "OPEN"),
    errors.MetadataFailed: lambda kind: kind("text", retryable=True, maybe_applied=True),
    StoreAwayError: lambda kind: kind("text"),
    MalformedError: lambda kind: kind(next(iter(Flaw)), "text"),
    StoreError: lambda kind: kind("text", store="zk://a", path="/b", maybe_applied=True),
    KubernetesError: lambda kind: kind(409, "text", maybe_applied=True),
    NotAnsweredError: lambda kind: kind("text", maybe_applied=True),
    InvalidFieldsError: lambda kind: kind([Problem("a", "text", "rule", "fix")]),
    IllegalPlacement: lambda kind: kind([]),
    NotEnoughBookies: lambda kind: kind(Constraint.ZONES, "text"),
    NewerFormatError: lambda kind: kind(7),
    TargetFailedError: lambda kind: kind(BookieId("bk"), wire_errors.Timeout("text")),
    RepairStoppedError: lambda kind: kind(next(iter(RepairTrouble)), "text"),
    EntryError: lambda kind: kind(next(iter(EntryFault)), LedgerId(7), EntryId(3), "text"),
    FormatError: lambda kind: kind("thing", next(iter(Fault)), "text"),
    ProtocolError: lambda kind: kind("text"),
    UnknownError: lambda kind: kind(77, "text"),
}


def below(kind: type[Trouble]) -> Iterator[type[Trouble]]:
    yield kind
    for each in kind.__subclasses__():
        yield from below(each)


def all_troubles() -> list[type[Trouble]]:
    for module in pkgutil.walk_packages(zonekeeper.__path__, "zonekeeper."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    ours = {kind for kind in below(Trouble) if kind.__module__.startswith("zonekeeper.")}
    return sorted(ours, key=lambda kind: (kind.__module__, kind.__qualname__))


def made(kind: type[Trouble]) -> Trouble:
    maker = next(each for each in kind.__mro__ if "__init__" in vars(each))
    maker = Exception if maker is BaseException else maker
    if maker not in MAKERS and not maker.__module__.startswith("zonekeeper."):
        maker = Exception  # such as that of ValueError
    return MAKERS[maker](cast(Callable[..., Trouble], kind))


def said(error: BaseException) -> object:
    """Give what is to be the same; an error among the attributes counts by its own."""
    own = {
        name: said(value) if isinstance(value, BaseException) else value
        for name, value in vars(error).items()
    }
    return type(error), error.args, str(error), own


def test_every_trouble_is_the_same_behind_a_pickle() -> None:
    kinds = all_troubles()
    assert len(kinds) > 100
    for kind in kinds:
        error = made(kind)
        error.add_note("a note")
        error.retryable = not kind.retryable
        error.maybe_applied = not kind.maybe_applied
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            copy = pickle.loads(pickle.dumps(error, protocol))
            assert said(copy) == said(error), kind
            assert copy.__notes__ == ["a note"]
            assert (copy.retryable, copy.maybe_applied) == (error.retryable, error.maybe_applied)


@pytest.mark.parametrize("name", ["Fenced", "LostQuorum", "ClientEnded", "BadAddress"])
def test_an_error_without_attributes_of_its_own_answers_as_its_class(name: str) -> None:
    kind: type[errors.ClientError] = getattr(errors, name)
    copy = pickle.loads(pickle.dumps(kind("text")))
    assert (type(copy), copy.maybe_applied) == (kind, kind.maybe_applied)
    assert not hasattr(copy, "__notes__")
