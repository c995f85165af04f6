"""Makes a failing scenario small: leaves out every fault that it fails without."""

from collections.abc import Callable

from tests.simulation.scenarios import Scenario

#: Runs that shrinking may take.
RUNS_MAX = 200


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Give a scenario that fails, too, and in which every fault is needed for that.

    Halves are left out first, then ever smaller parts, to single faults. When the runs are spent,
    what is left may not be the smallest.
    """
    runs = 0
    part = max(len(scenario.faults) // 2, 1)
    while scenario.faults:
        at, shorter_found = 0, False
        while at < len(scenario.faults):
            if runs >= RUNS_MAX:
                return scenario
            runs += 1
            shorter = scenario.without(range(at, at + part))
            if fails(shorter):
                scenario, shorter_found = shorter, True
            else:
                at += part
        if part == 1 and not shorter_found:
            break
        part = max(part // 2, 1)
    return scenario
