"""The rules about logs are checked: each bad history is refused for its reason; good ones pass."""

from collections.abc import Sequence

import pytest

from tests.simulation import campaign, checker
from tests.simulation import history as seen
from tests.simulation.campaign import Task
from tests.simulation.log_rules import LOG_RULES
from tests.simulation.log_sights import (
    LogAppended,
    LogAsked,
    LogEndSeen,
    LogFailed,
    LogFlushed,
    LogGot,
    LogOpened,
    LogSight,
    LogStored,
    LogTrimWanted,
)
from tests.support.checkout_root import ROOT


def opened(first: int, who: str = "one") -> LogSight:
    return LogOpened(who=who, first=first)


def appended(sequence: int, value: str = "", who: str = "one") -> LogSight:
    text = value or f"{who}/{sequence}"
    return LogAppended(who=who, sequence=sequence, value=text.encode())


def stored(upto: int, who: str = "one") -> LogSight:
    return LogStored(who=who, upto=upto)


def got(sequence: int, value: str = "", known: int | None = None) -> LogSight:
    number = 10 + sequence if known is None else known
    text = value or f"one/{sequence}"
    return LogGot(handle="r", sequence=sequence, id=bytes((number,)), value=text.encode())


FLUSHED = LogFlushed(who="one", sequence=1, id=bytes((11,)).hex())
ASKED = LogAsked(handle="r")
ENDED = LogEndSeen(handle="r")
START = (opened(0), appended(0), appended(1))

BAD: dict[str, tuple[Sequence[LogSight], str]] = {
    "stored twice": (
        (*START, stored(1), opened(0, "two"), appended(0, who="two"), stored(0, "two")),
        "log kept",
    ),
    "stored, and something else read": (
        (*START, opened(0, "two"), appended(0, who="two"), stored(0), ASKED, got(0, "two/0")),
        "log kept",
    ),
    "sent again": (
        (*START, appended(2, "one/1"), ASKED, got(0), got(1), got(2, "one/1")),
        "log once",
    ),
    "never written": ((*START, ASKED, got(0, "else")), "log alike"),
    "another id": ((*START, ASKED, got(0), ASKED, got(0, known=9)), "log alike"),
    "another id than was told": ((*START, FLUSHED, ASKED, got(0), got(1, known=12)), "log alike"),
    "a gap": ((*START, appended(2), ASKED, got(0), got(2)), "log dense"),
    "not from the beginning": ((*START, ASKED, got(1)), "log dense"),
    "ids that fall": ((*START, ASKED, got(0), got(1, known=10)), "log order"),
    "not shown": ((*START, FLUSHED, ASKED, got(0), ENDED), "log shown"),
    "a writer that begins in the middle": ((*START, stored(1), opened(1, "two")), "log writer"),
    "damage": ((LogFailed(who="r", error="LogDamaged", retryable=False),), "log reason"),
}

GOOD: Sequence[LogSight] = (
    *START,
    stored(0),
    ASKED,
    got(0),
    ENDED,
    FLUSHED,
    ASKED,
    got(0),
    got(1),
    ENDED,
    LogTrimWanted(sequence=1),
    ASKED,
    got(1),
    LogFailed(who="one", error="LogTaken", retryable=False),
    opened(2, "two"),
)


def rules_of(sights: Sequence[LogSight]) -> set[str]:
    return {one.rule for one in checker.check([seen.OfLog(sight=sight) for sight in sights])}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_of_a_log_is_refused_for_its_reason(name: str) -> None:
    sights, rule = BAD[name]
    assert rule in rules_of(sights)


def test_a_good_history_of_a_log_is_accepted() -> None:
    assert rules_of(GOOD) == set()


def test_every_rule_of_logs_has_a_bad_history() -> None:
    assert {rule for _, rule in BAD.values()} == set(LOG_RULES)


def test_the_page_of_the_simulator_lists_every_rule_of_logs() -> None:
    page = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
    for rule, says in LOG_RULES.items():
        assert f"\n| *{rule}* | {says} |\n" in page


def test_a_few_seeds_with_a_log_keep_every_promise() -> None:
    report = campaign.do(Task(profile="logs", first=10_000, seeds=2))
    assert not report.failures, "\n".join(map(str, report.failures))
