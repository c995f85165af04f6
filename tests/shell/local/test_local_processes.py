"""A process is known by more than its number, and interruptions end work in order."""

import asyncio
import dataclasses
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from zonekeeper.shell.local import local_processes, local_running
from zonekeeper.shell.local.local_processes import ProcessMark


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is not ours."""
    process = subprocess.Popen(["/bin/sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[ProcessMark]:
    """A process of ours, which lives until a signal."""
    code = "import signal; print('here', flush=True); signal.pause()"
    mark = local_processes.start([*local_processes.PYTHON, "-c", code], tmp_path / "out")
    yield mark
    local_processes.send(mark, signal.SIGKILL)
    asyncio.run(local_processes.ended(mark))


def test_a_process_runs_until_it_is_ended(ours: ProcessMark) -> None:
    assert local_processes.is_running(ours)

    local_processes.send(ours, signal.SIGKILL)
    asyncio.run(local_processes.ended(ours))

    assert not local_processes.is_running(ours)
    local_processes.send(ours, signal.SIGKILL)  # no process is hit


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
def test_a_process_of_another_user_is_named(ours: ProcessMark) -> None:
    os.setresuid(65_534, 65_534, 0)
    try:
        with pytest.raises(PermissionError, match=f"process {ours.pid} is another user's"):
            local_processes.send(ours, signal.SIGTERM)
    finally:
        os.setresuid(0, 0, 0)
    assert local_processes.is_running(ours)


def test_one_that_has_ended_does_not_run_even_while_nobody_has_waited_for_it(
    tmp_path: Path,
) -> None:
    mark = local_processes.start(
        [*local_processes.PYTHON, "-c", "print('words')"], tmp_path / "out"
    )
    child = os.pidfd_open(mark.pid)
    os.waitid(os.P_PIDFD, child, os.WEXITED | os.WNOWAIT)
    os.close(child)

    assert not local_processes.is_running(mark)
    asyncio.run(local_processes.ended(mark))
    assert (tmp_path / "out").read_text() == "words\n"


def test_a_process_that_got_the_number_again_is_not_taken_for_ours(
    stranger: subprocess.Popen[bytes], ours: ProcessMark
) -> None:
    began_before = dataclasses.replace(ours, started_ticks=ours.started_ticks - 1)
    of_another_boot = dataclasses.replace(ours, boot="another")
    reused = dataclasses.replace(ours, pid=stranger.pid, started_ticks=1)
    for mark in (began_before, of_another_boot, reused):
        assert not local_processes.is_running(mark)
        local_processes.send(mark, signal.SIGKILL)
        asyncio.run(local_processes.ended(mark))

    assert stranger.poll() is None
    assert local_processes.is_running(ours)


def test_one_that_is_stopped_runs_frozen_until_it_goes_on(ours: ProcessMark) -> None:
    parent = os.pidfd_open(ours.pid)
    assert not local_processes.is_frozen(ours)

    local_processes.send(ours, signal.SIGSTOP)
    os.waitid(os.P_PIDFD, parent, os.WSTOPPED)
    assert local_processes.is_frozen(ours)
    assert local_processes.is_running(ours)

    local_processes.send(ours, signal.SIGCONT)
    os.waitid(os.P_PIDFD, parent, os.WCONTINUED)
    assert not local_processes.is_frozen(ours)
    os.close(parent)


def test_of_our_settings_only_those_of_the_log_come_to_it_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZONEKEEPER_ZONE", "z")
    monkeypatch.setenv("SOMETHING_ELSE", "kept")
    monkeypatch.setenv("ZONEKEEPER_LOG_FORMAT", "json")
    names = ("ZONEKEEPER_ZONE", "SOMETHING_ELSE", "ZONEKEEPER_LOG_FORMAT")
    code = f"import os; print(*map(os.environ.get, {names}))"
    mark = local_processes.start([*local_processes.PYTHON, "-c", code], tmp_path / "out")
    asyncio.run(local_processes.ended(mark))

    assert (tmp_path / "out").read_text() == "None kept json\n"


def test_it_has_a_session_of_its_own(ours: ProcessMark) -> None:
    assert os.getsid(ours.pid) == ours.pid != os.getsid(0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_work_in_order_and_a_second_one_does_not_disturb_that(
    number: signal.Signals,
) -> None:
    heard: list[str] = []

    async def work() -> None:
        try:
            signal.raise_signal(number)
            await asyncio.Event().wait()
        finally:
            signal.raise_signal(number)
            await asyncio.to_thread(heard.append, "taken back")

    with pytest.raises(local_running.InterruptedWorkError):
        local_running.run(work(), lambda: heard.append("stopping"))

    assert heard == ["stopping", "taken back"]


def test_work_that_nobody_interrupts_gives_what_it_gives() -> None:
    async def work() -> int:
        return 3

    def never() -> None:
        raise AssertionError

    assert local_running.run(work(), never) == 3
