"""Progress of a job: a line now and then, and at once what the job waits for."""

import io
from itertools import pairwise

from zonekeeper.pipeline.planning.job_progress import FIRST_LINE_S, LINE_EVERY_S_MAX, JobProgress


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
    for held in (None, "zone a is held", "zone a is held", None, None):
        progress.look(0, 0, held)
    assert out.getvalue().splitlines() == [
        "the job reads nothing until this is over: zone a is held",
        "nothing holds any more: the job goes on",
    ]


def test_before_spark_has_tasks_nothing_is_said() -> None:
    out, clock = io.StringIO(), Clock()
    progress = JobProgress(out, clock)
    clock.now_s = 60
    progress.look(0, 0, None)
    assert out.getvalue() == ""
