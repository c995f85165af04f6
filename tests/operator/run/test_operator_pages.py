"""The operator's pages: alive while turns end well, ready also while it stands by."""

from http import HTTPStatus

import pytest

from tests.operator.resources import clock
from zonekeeper.operator.kubernetes.api import LEASES, Json
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.operator.lead.keeping_lease import LeaseClocks
from zonekeeper.operator.lead.leading import ActingRight
from zonekeeper.operator.lead.lease_objects import LeasePlace
from zonekeeper.operator.plan.plans import TurnPlan
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.run import turn_figures
from zonekeeper.operator.run.operator_pages import OperatorPages
from zonekeeper.operator.run.turn_figures import ConditionFigure, TurnFigures, TurnTally

MINUTE_MS = 60_000


class Shown:
    """The pages of a process whose clock the test moves."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.tally = TurnTally(lambda: self.now_ms)
        self.pages = OperatorPages(self.tally)

    def is_alive(self) -> bool:
        return self.pages.alive().status is HTTPStatus.OK

    def well(self, resource: str) -> None:
        self.tally.ended_well(resource, None, 0)


def figures(status: Json, waits_for: Waiting | None = None) -> TurnFigures:
    plan = TurnPlan(actions=(), waits_for=waits_for, status=status, notices=(), recheck_ms=1)
    return turn_figures.of_plan(plan)


def test_without_a_resource_it_is_alive_for_ever() -> None:
    shown = Shown()
    shown.now_ms = 1_000 * MINUTE_MS
    assert shown.is_alive()

    shown.tally.begun("logs/log")
    assert shown.is_alive()
    shown.now_ms += 10 * MINUTE_MS
    shown.tally.gone("logs/log")
    assert shown.is_alive()


def test_it_is_not_alive_when_no_turn_ended_well_for_five_minutes() -> None:
    shown = Shown()
    shown.tally.begun("logs/log")
    shown.now_ms = 3 * MINUTE_MS
    shown.well("logs/log")
    shown.now_ms = 8 * MINUTE_MS - 1
    shown.tally.failed("logs/log")
    assert shown.is_alive()

    shown.now_ms += 1
    page = shown.pages.alive()
    assert page.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert page.text == "no turn ended well for 5 minutes: logs/log\n"

    shown.well("logs/log")
    assert shown.is_alive()


def test_one_resource_whose_turns_fail_does_not_end_those_of_the_others() -> None:
    shown = Shown()
    shown.tally.begun("logs/log")
    shown.tally.begun("logs/bad")
    for _ in range(30):
        shown.now_ms += MINUTE_MS
        shown.tally.failed("logs/bad")
        shown.well("logs/log")
    assert shown.is_alive()
    assert shown.tally.without_turn_ms("logs/bad") == 30 * MINUTE_MS


async def nothing(*_: object) -> None:
    return


async def test_it_is_ready_as_holder_and_while_it_stands_by_and_says_which() -> None:
    shown, kubernetes = Shown(), MemoryKubernetes()
    assert shown.pages.ready().status is HTTPStatus.SERVICE_UNAVAILABLE

    clocks = LeaseClocks(elapsed_ms=lambda: shown.now_ms, wall=clock)
    shown.pages.right = right = ActingRight(kubernetes, [LeasePlace("default")], "z_a_1", clocks)
    async with right.held(nothing):
        page = shown.pages.ready()
        assert page.status is HTTPStatus.OK
        assert (
            page.text == "ready\nacts: this process holds the Lease default/zonekeeper-operator\n"
        )
        assert "zonekeeper_operator_acts 1\n" in shown.pages.table()["/metrics"]().text
        assert (
            "zonekeeper_operator_lease_left_seconds 10\n" in shown.pages.table()["/metrics"]().text
        )
        shown.now_ms += 10_000
        assert "zonekeeper_operator_acts 0\n" in shown.pages.table()["/metrics"]().text
    assert kubernetes.peek(LEASES, "default", "zonekeeper-operator") is not None


@pytest.mark.parametrize(
    ("holder", "words"),
    [("z_b_1", "is held by z_b_1\n"), ("y_a_1", "of another installation")],
)
async def test_it_is_ready_while_it_stands_by(holder: str, words: str) -> None:
    shown = Shown()
    clocks = LeaseClocks(elapsed_ms=lambda: shown.now_ms, wall=clock)
    place = LeasePlace("default")
    shown.pages.right = right = ActingRight(MemoryKubernetes(), [place], "z_a_1", clocks)
    right.waits_for = place, holder

    page = shown.pages.ready()

    assert page.status is HTTPStatus.OK
    assert words in page.text
    assert shown.is_alive()
    assert "zonekeeper_operator_stands_by 1\n" in shown.pages.table()["/metrics"]().text


def test_figures_are_those_of_the_status() -> None:
    found = figures(
        {
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "BookiesNotReady", "message": "x"}
            ],
            "bookies": 9,
            "readyBookies": 7,
            "roll": {
                "total": 9,
                "updated": 4,
                "waitingFor": [
                    {"gate": "zoneHeld"},
                    {"gate": "bookieMissing"},
                    {"gate": "zoneHeld"},
                ],
            },
        },
        Waiting(Predicate.BOOKIES_NOT_READY, "zone a: 1 of 3"),
    )

    assert found == TurnFigures(
        predicate="BookiesNotReady",
        conditions=(ConditionFigure("Ready", "False", "BookiesNotReady"),),
        bookies_asked=9,
        bookies_ready=7,
        pods_total=9,
        pods_updated=4,
        gates=("bookieMissing", "zoneHeld"),
    )


def test_without_a_roll_no_pods_and_gates_are_shown() -> None:
    shown = Shown()
    shown.tally.begun("logs/log")
    shown.tally.ended_well("logs/log", figures({"bookies": 9, "readyBookies": 9}), 2)

    text = shown.pages.table()["/metrics"]().text

    assert 'zonekeeper_operator_bookies_ready{resource="logs/log"} 9\n' in text
    assert 'zonekeeper_operator_acts_failed_total{resource="logs/log"} 2\n' in text
    for absent in ("pods{", "pods_updated{", "gate_waits{", "operator_waits{"):
        assert absent not in text
