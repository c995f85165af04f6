"""Progress of a job: a line now and then, and at once what the job waits for."""

import io
import threading
from itertools import pairwise

import pytest
from py4j.protocol import Py4JNetworkError

from zonekeeper.pipeline.planning import job_progress
from zonekeeper.pipeline.planning.job_progress import FIRST_LINE_S, LINE_EVERY_S_MAX, JobProgress
from zonekeeper.placement.zones.losses import Held, HeldBy


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_lines_come_ever_more_seldom() -> None:
    out, clock = io.StringIO(), Clock()
    progress = JobProgress(out, clock)
    at: list[float] = []
    for second in range(2_000):
        clock.now_s = second
        progress.look(second, 2_000, None)
        if (text := out.getvalue()).count("\n") > len(at):
            at.append(second)
            assert text.splitlines()[-1] == f"{second} of 2000 tasks done, {second} s"
    pauses = [after - before for before, after in pairwise(at)]
    assert at[0] == FIRST_LINE_S
    assert pauses[:3] == [10, 20, 40]
    assert max(pauses) == LINE_EVERY_S_MAX


def test_what_the_job_waits_for_is_told_at_once_and_once() -> None:
    out, clock = io.StringIO(), Clock()
    progress = JobProgress(out, clock)
    first, later = (Held(by=HeldBy.ZONE_HELD, text=f"zone a is held for {s}s") for s in (1, 2))
    other = Held(by=HeldBy.CLUSTER_HELD, text="the cluster is held")
    for held in (None, first, later, later, other, None, None):
        progress.look(0, 0, held)
    assert out.getvalue().splitlines() == [
        "the job reads nothing until this is over: zone a is held for 1s",
        "the job reads nothing until this is over: the cluster is held",
        "nothing holds any more: the job goes on",
    ]


def test_a_line_of_progress_says_what_is_waited_for() -> None:
    out, clock = io.StringIO(), Clock()
    progress = JobProgress(out, clock)
    clock.now_s = 60
    progress.look(1, 2, Held(by=HeldBy.ZONE_HELD, text="zone a is held for 9s"))
    assert out.getvalue().splitlines()[-1] == (
        "1 of 2 tasks done, 60 s; waits, because zone a is held for 9s"
    )


def test_before_spark_has_tasks_nothing_is_said() -> None:
    out, clock = io.StringIO(), Clock()
    progress = JobProgress(out, clock)
    clock.now_s = 60
    progress.look(0, 0, None)
    assert out.getvalue() == ""


@pytest.mark.parametrize("gone", [Py4JNetworkError("no answer"), ConnectionRefusedError()])
def test_a_driver_that_java_has_left_says_nothing_of_its_own(
    gone: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that fails shows a traceback, before the one line that says what is wrong."""
    monkeypatch.setattr(job_progress, "LOOK_EVERY_S", 0.001)
    asked, out = threading.Event(), io.StringIO()

    class Tracker:
        def getActiveStageIds(self) -> list[int]:  # noqa: N802 Spark's name
            asked.set()
            raise gone

    progress = JobProgress(out, lambda: 0.0)
    with job_progress.followed(progress, Tracker(), lambda: None):  # type: ignore[arg-type]  # a part of Spark's
        assert asked.wait(10)
    assert out.getvalue() == ""
