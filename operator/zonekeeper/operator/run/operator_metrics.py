"""The metrics of the operator's process: one table of families, each with its help.

A cluster is named ``namespace/name`` in the label ``resource``: Prometheus gives each sample a
label ``namespace`` of its own, which is that of the operator, and people give a label ``cluster``.
"""

from collections.abc import Callable, Iterator
from typing import Final

from zonekeeper.operator.lead.leading import ActingRight
from zonekeeper.operator.run.turn_figures import ClusterTally, TurnFigures, TurnTally
from zonekeeper.wire.formats import exposition
from zonekeeper.wire.formats.exposition import Family, Labels, labelled, single
from zonekeeper.wire.running import process_figures
from zonekeeper.wire.running.looking import Page

_OF_TALLY: Final[dict[str, tuple[Callable[[ClusterTally], float], str]]] = {
    "turns_total": (lambda one: one.ended_well, "Turns that ended well; some of them only wait."),
    "turns_failed_total": (
        lambda one: one.failed,
        "Turns that did not come to their end; the operator's log says why.",
    ),
    "acts_failed_total": (
        lambda one: one.failed_acts,
        "Acts that the API server or the metadata store refused; the condition Applied says why.",
    ),
}
_OF_FIGURES: Final[dict[str, tuple[Callable[[TurnFigures], float | None], str]]] = {
    "bookies_asked": (lambda one: one.bookies_asked, "Bookies that the cluster shall have."),
    "bookies_ready": (lambda one: one.bookies_ready, "Bookies that are ready."),
    "pods": (lambda one: one.pods_total, "Pods that a roll counts."),
    "pods_updated": (lambda one: one.pods_updated, "Of these, pods of the newest template."),
}


def page(tally: TurnTally, right: ActingRight | None) -> Page:
    """Give ``/metrics``; None: the process has not come to stand for the Lease yet."""
    families = [*_of_lease(right), *_of_turns(tally), *process_figures.families()]
    return Page(exposition.render(families), content_type=exposition.CONTENT_TYPE)


def _of_lease(right: ActingRight | None) -> Iterator[Family]:
    left_ms = 0 if right is None else right.left_ms()
    waits = right is not None and right.waits_for is not None
    yield single(
        "zonekeeper_operator_acts",
        left_ms > 0,
        "1 while this process holds the Lease and may act, else 0.",
    )
    yield single(
        "zonekeeper_operator_stands_by",
        waits,
        "1 while another process holds the Lease, and this one waits for it, else 0.",
    )
    yield single(
        "zonekeeper_operator_lease_left_seconds",
        left_ms / 1_000,
        "How long this process may still act without a renewal of the Lease.",
    )


def _of_turns(tally: TurnTally) -> Iterator[Family]:
    clusters = dict(sorted(tally.clusters.items()))
    for name, (count, text) in _OF_TALLY.items():
        yield _by_cluster(name, {key: count(one) for key, one in clusters.items()}, text)
    yield _by_cluster(
        "without_turn_seconds",
        {key: tally.without_turn_ms(key) / 1_000 for key in clusters},
        "The time since a turn of the cluster ended well.",
    )
    shown = {key: one.figures for key, one in clusters.items() if one.figures is not None}
    for name, (take, text) in _OF_FIGURES.items():
        values = {key: take(one) for key, one in shown.items()}
        known = {key: value for key, value in values.items() if value is not None}
        yield _by_cluster(name, known, text)
    yield _states(
        "waits",
        {(("resource", key), ("predicate", one.predicate)) for key, one in shown.items()},
        "1 for the predicate that the cluster waits for; none if it is settled.",
    )
    yield _states(
        "gate_waits",
        {(("resource", key), ("gate", gate)) for key, one in shown.items() for gate in one.gates},
        "1 for each gate that a roll waits for.",
    )
    yield _states(
        "condition",
        {
            (("resource", key), *zip(("type", "status", "reason"), each, strict=True))
            for key, one in shown.items()
            for each in one.conditions
        },
        "1 for each condition of the cluster's resource, with its status and reason.",
    )


def _by_cluster(name: str, values: dict[str, float], text: str) -> Family:
    return labelled(f"zonekeeper_operator_{name}", "resource", values, text)


def _states(name: str, found: set[Labels], text: str) -> Family:
    samples: dict[Labels, float] = {
        labels: 1 for labels in sorted(found) if all(value for _, value in labels)
    }
    return Family(f"zonekeeper_operator_{name}", samples, text)
