"""A worker's log: nothing unasked, and each line once, from the level on that is asked for."""

import io
import logging
from collections.abc import Iterator

import pytest

from zonekeeper.pipeline.base import worker_client, worker_log
from zonekeeper.placement.base.troubles import Trouble

TASK = "zonekeeper.pipeline.source.task_reading"


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    ours = logging.getLogger("zonekeeper")
    level, handlers = ours.level, list(ours.handlers)
    yield
    ours.setLevel(level)
    ours.handlers[:] = handlers


def said(environment: dict[str, str], times: int = 1) -> list[str]:
    stream = io.StringIO()
    for _ in range(times):
        worker_log.set_up(environment, stream)
    logging.getLogger(TASK).info("a task has read 5 bytes")
    logging.getLogger(TASK).warning("a task warns")
    logging.getLogger("another").warning("a library warns")
    return [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("environment", [{}, {"ZONEKEEPER_LOG_LEVEL": ""}])
def test_without_the_variable_nothing_is_set_up(environment: dict[str, str]) -> None:
    before = list(logging.getLogger("zonekeeper").handlers)
    assert said(environment) == []
    assert logging.getLogger("zonekeeper").handlers == before


@pytest.mark.parametrize("level", ["info", "INFO", "debug"])
def test_with_it_each_line_is_written_once(level: str) -> None:
    assert said({"ZONEKEEPER_LOG_LEVEL": level}, times=3) == [
        f"INFO {TASK} a task has read 5 bytes",
        f"WARNING {TASK} a task warns",
    ]


def test_a_higher_level_leaves_lines_out() -> None:
    assert said({"ZONEKEEPER_LOG_LEVEL": "warning"}) == [f"WARNING {TASK} a task warns"]


def test_a_level_that_does_not_exist_fails_no_task() -> None:
    first, *others = said({"ZONEKEEPER_LOG_LEVEL": "loud"})
    assert "ZONEKEEPER_LOG_LEVEL=loud: must be one of debug, info, warning, error" in first
    assert len(others) == 2


def test_the_first_task_of_a_worker_sets_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONEKEEPER_LOG_LEVEL", "info")
    ours = logging.getLogger("zonekeeper")
    before = list(ours.handlers)
    with pytest.raises(Trouble):
        worker_client.kept("nowhere")
    (handler,) = (one for one in ours.handlers if one not in before)
    assert ours.level == logging.INFO
    assert handler.formatter is not None
