"""Stages are folded in order, and every wait has a name, a place where it shows, and a runbook."""

import functools
import inspect

import pytest

from tests.operator.plan import small_world
from tests.operator.plan.small_world import Scene
from tests.support.checkout_root import ROOT
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan import pausing, planning, stages
from zonekeeper.operator.plan.plans import Release, TurnPlan
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled, Stage
from zonekeeper.operator.roots import roots

#: Where the shell keeps the runbooks; the operator imports no shell.
RUNBOOKS = ROOT / "shell" / "zonekeeper" / "shell" / "runbooks"


@functools.cache
def decisions() -> tuple[tuple[Scene, TurnPlan], ...]:
    """Decide each scene of the small world once."""
    return tuple((scene, scene.plan()) for scene in small_world.scenes())


def kept() -> list[tuple[Scene, TurnPlan]]:
    return [(scene, plan) for scene, plan in decisions() if not scene.observed.leaving]


def removed() -> list[tuple[Scene, TurnPlan]]:
    return [
        (scene, plan)
        for scene, plan in decisions()
        if scene.observed.leaving and scene.observed.held
    ]


def asked(fold: tuple[Stage, ...], case: Case) -> tuple[list[Outcome], Outcome]:
    """Fold, and give what each stage said that was asked, too."""
    said: list[Outcome] = []

    def listening(stage: Stage) -> Stage:
        def listen(case: Case) -> Outcome:
            said.append(stage(case))
            return said[-1]

        return listen

    return said, stages.fold(map(listening, fold), case)


def conditions(plan: TurnPlan) -> list[Json]:
    found: list[Json] = plan.status["conditions"]
    return found


def test_the_first_stage_that_is_not_settled_decides_and_later_ones_are_not_asked() -> None:
    for scene, plan in decisions():
        if scene.observed.leaving and not scene.observed.held:
            assert plan.actions == ()
            continue
        if plan.waits_for is not None and plan.waits_for.predicate is Predicate.DRILL:
            continue  # While a drill is on no stage is asked.
        case = planning.case_of(scene.wanted, scene.observed)
        fold = planning.REMOVING if scene.observed.leaving else planning.KEEPING
        said, outcome = asked(fold, case)
        assert all(isinstance(one, Settled) for one in said[:-1])
        if isinstance(outcome, Settled):
            assert len(said) == len(fold)
        assert outcome == said[-1]

        still = scene.observed.leaving or pausing.is_paused(scene.observed)
        marks = () if still else planning.beside(case)
        decided = outcome.actions if isinstance(outcome, Act) else ()
        assert plan.actions == decided + marks
        if isinstance(outcome, Waiting):
            assert plan.waits_for == outcome


def rests_rightly(plan: TurnPlan) -> bool:
    """Check that a cluster rests exactly when all its conditions are true; does it rest?

    One in plaintext rests, too: only a person can change that.
    """
    well = all(
        item["status"] == "True" for item in conditions(plan) if item["reason"] != "Plaintext"
    )
    at_rest = not plan.actions and plan.waits_for is None
    assert at_rest == (well and not plan.actions)
    assert at_rest == (plan.recheck_ms == planning.RESTING_MS)
    return at_rest


def shows_its_wait(plan: TurnPlan) -> None:
    if (waiting := plan.waits_for) is not None:
        shown = [
            (item["reason"], item["message"])
            for item in conditions(plan)
            if item["status"] != "True"
        ]
        assert (waiting.predicate, waiting.why) in shown


def test_a_cluster_is_settled_when_all_its_conditions_are_true_and_rests_then() -> None:
    assert any([rests_rightly(plan) for _, plan in kept()])  # noqa: C419 all are checked


def test_what_a_cluster_waits_for_is_the_reason_of_a_condition_with_the_same_words() -> None:
    for _, plan in kept():
        shows_its_wait(plan)


@pytest.mark.long
def test_both_hold_in_the_whole_small_world() -> None:
    for scene in small_world.scenes(whole=True):
        if not scene.observed.leaving:
            plan = scene.plan()
            rests_rightly(plan)
            shows_its_wait(plan)


def test_a_removal_lets_go_or_says_what_it_waits_for() -> None:
    for scene, plan in removed():
        released = [item for item in conditions(plan) if item["type"] == "Released"]
        if plan.actions == (Release(),):
            assert released == []
        else:
            assert plan.waits_for is not None
            (message,) = [item["message"] for item in released]
            assert message.startswith(plan.waits_for.why)
            assert message.endswith(
                "; to keep what is left, and let the resource go, set onDelete: Retain"
            )
            is_away = isinstance(scene.observed.root, roots.Unreachable)
            assert message.count("zonekeeper.io/force-delete=") == is_away


def test_what_is_decided_again_from_the_same_view_says_nothing_new() -> None:
    for scene, plan in kept():
        if plan.status.get("instance") != scene.observed.instance:
            continue  # it was noted in this turn, and the next one may rely on it
        again = scene.after(plan).plan()
        assert (again.status, again.actions, again.notices) == (plan.status, plan.actions, ())


@pytest.mark.parametrize("predicate", list(Predicate))
def test_each_predicate_is_waited_for_somewhere(predicate: Predicate) -> None:
    found = {plan.waits_for.predicate for _, plan in decisions() if plan.waits_for is not None}
    assert predicate in found


@pytest.mark.parametrize("predicate", list(Predicate))
def test_each_predicate_has_a_runbook_that_says_what_to_look_at_and_what_to_do(
    predicate: Predicate,
) -> None:
    assert predicate.runbook == f"zonekeeper runbook {predicate}"
    text = (RUNBOOKS / f"{predicate}.md").read_text()
    assert text.startswith(f"# `{predicate}`")
    for heading in ("## What it means", "## What to look at", "## What to do"):
        assert heading in text
    assert f"runbooks/{predicate}.md)" in (ROOT / "docs" / "operator.md").read_text()


def test_each_runbook_of_the_operator_is_of_a_predicate() -> None:
    pages = {page.stem for page in RUNBOOKS.glob("[A-Z]*.md")}
    assert pages == set(Predicate)


def test_a_stage_that_acts_has_something_to_do() -> None:
    with pytest.raises(AssertionError):
        Act(())


def test_nothing_is_settled_but_a_fold_without_a_stage_that_is_not() -> None:
    scene = next(iter(small_world.scenes()))
    case = planning.case_of(scene.wanted, scene.observed)
    waiting = Waiting(Predicate.FAILED, "quota")

    assert stages.fold((), case) == Settled()
    assert stages.fold((lambda _: Settled(), lambda _: waiting), case) == waiting


@pytest.mark.parametrize("stage", [*planning.KEEPING, *planning.REMOVING])
def test_each_stage_has_a_module_of_its_own(stage: Stage) -> None:
    assert inspect.getmodule(stage) is not planning
    assert stage.__name__ == "stage"
