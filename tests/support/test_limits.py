"""A test that hangs fails at its lane's limit, and the others run: in any way of hanging."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import limits
from tests.support.checkout_root import ROOT

SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
markers =
    slow: what may take longer
    some: what needs a while to begin
limits =
    fast: 0.3
    slow: 1000
    some: 2
filterwarnings = error
"""

#: Does not wait for a minute until it is interrupted again.
SOON_AGAIN = """
from tests.support import limits

limits.AGAIN_S = 1
"""

HANGING = '''
import asyncio
import contextlib
import os
import signal
import sys
import threading
import time

import hypothesis
import pytest
from hypothesis import strategies


async def idle() -> None:
    await asyncio.Event().wait()


def beside_all() -> None:
    threading.Event().wait()


async def busy() -> None:
    while True:
        await asyncio.sleep(0)


@pytest.fixture
def never_made():
    threading.Event().wait()


@pytest.fixture
def never_ended():
    yield
    threading.Event().wait()


@pytest.mark.slow
def test_first():
    """Is well."""


def test_busy():
    while True:
        pass


def test_blocked():
    threading.Event().wait()


async def test_idle_loop():
    await idle()


async def test_busy_loop():
    async with asyncio.TaskGroup() as group:
        group.create_task(busy(), name="the busy one")
        group.create_task(idle(), name="the idle one")


@pytest.mark.some
async def test_idle_beside_a_thread():
    threading.Thread(target=beside_all, daemon=True).start()
    async with asyncio.TaskGroup() as group:
        group.create_task(idle())
        while True:
            await asyncio.sleep(0)


async def test_callbacks():
    """The error comes while a callback runs, into which no task looks."""
    loop = asyncio.get_running_loop()

    def again():
        try:
            time.sleep(0.05)
        finally:
            loop.call_soon(again)

    again()
    await idle()


@hypothesis.settings(database=None, deadline=None)
@hypothesis.given(strategies.integers())
def test_drawn(number):
    threading.Event().wait()


def test_caught():
    with contextlib.suppress(BaseException):
        threading.Event().wait()


def test_caught_again_and_again():
    for _ in range(3):
        with contextlib.suppress(BaseException):
            threading.Event().wait()


def test_another_error():
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        raise ValueError from None


def test_set_up(never_made):
    raise AssertionError


def test_tear_down(never_ended):
    """Is well itself."""


@pytest.mark.slow
def test_slow():
    """May take longer than the others."""
    time.sleep(0.4)


@pytest.mark.slow
def test_forked():
    """A child has its own alarm, and dies of it."""
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        threading.Event().wait()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGALRM


@pytest.mark.slow
def test_last():
    """Is well."""
'''

TESTS = set(re.findall(r"def (test_\w+)", HANGING))
WELL = {"test_first", "test_slow", "test_forked", "test_last"}


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the tests that hang in a pytest of their own."""
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "conftest.py").write_text(SOON_AGAIN)
    (folder / "test_hanging.py").write_text(HANGING)
    plugins = ["-p", "tests.support.limits", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", *plugins, *arguments, str(folder)],
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def named(kind: str, told: str) -> set[str]:
    return set(re.findall(rf"^{kind} \S*::(\w+)", told, re.MULTILINE))


@pytest.mark.processes
@pytest.mark.parametrize("arguments", [[], ["-n", "1"]], ids=["alone", "with_workers"])
def test_what_hangs_fails_and_the_lane_goes_on(tmp_path: Path, arguments: list[str]) -> None:
    code, told = run(tmp_path, *arguments)

    assert code == pytest.ExitCode.TESTS_FAILED, told
    # On a busy machine a limit may be over before the test itself begins: that is an error.
    assert named("FAILED", told) | named("ERROR", told) == TESTS - WELL, told
    assert "test_set_up" in named("ERROR", told), told
    assert named("PASSED", told) >= WELL, told
    assert "a test of this lane may take 0.3 s" in told
    assert "node down" not in told


@pytest.mark.processes
def test_all_threads_and_tasks_are_told(tmp_path: Path) -> None:
    _, told = run(tmp_path, "-k", "beside")

    assert re.search(r"Current thread .*most recent call first", told), told
    assert "in beside_all" in told, told
    assert "in idle" in told, told


def test_a_test_has_the_largest_limit_of_its_lanes() -> None:
    lanes = limits.limits_of(["fast: 1", "crash: 20", "long: 0300"])

    assert limits.limit_of(["parametrize"], lanes) == 1
    assert limits.limit_of(["crash", "parametrize"], lanes) == 20
    assert limits.limit_of(["crash", "long"], lanes) == 300


def test_the_test_that_runs_here_is_watched(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.has_plugin("tests.support.limits")
