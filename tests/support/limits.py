"""No test hangs: one that takes longer than its lane allows fails by itself, and the lane goes on.

A test's limit is the largest of its lanes' (``limits`` in pyproject.toml; a test without a marker
is of the lane ``fast``). It is for set-up, call and tear-down together. When it is over, the plugin
notes the stacks of all threads and tasks, and raises in the main thread, where pytest runs tests.
The next test then runs as always, in the same process, with and without ``-n``.

What is raised derives from ``KeyboardInterrupt``, because nothing else ends everything: asyncio
puts other errors into the task that happened to run, and hypothesis would try the example again.
The hooks make a failure of it before pytest could take it for Ctrl-C. A test that catches it fails
all the same when it returns. One that waits on gets it again, every ``AGAIN_S``.

Not ended: a main thread that stands inside a call into C which no signal interrupts. There
``faulthandler_timeout`` ends the process. With ``-n`` another worker takes its place.

As a plugin it must be known from the beginning: ``-p tests.support.limits``.
"""

import asyncio
import faulthandler
import io
import os
import signal
import tempfile
import threading
from collections.abc import Generator, Iterable, Mapping
from types import FrameType
from typing import Final, TypeVar

import pytest

T = TypeVar("T")

#: The lane of tests without a marker.
FAST: Final = "fast"
#: What took its limit is interrupted again after so long: tear-downs, and what caught the first.
AGAIN_S = 60.0
#: So many tasks are shown.
TASKS_MAX: Final = 100


class OverLimitError(KeyboardInterrupt):
    """The limit of the test that runs is over."""


def limits_of(lines: Iterable[str]) -> dict[str, float]:
    """Read the setting: ``lane: seconds``, one a line."""
    limits = {}
    for line in lines:
        lane, _, seconds = line.partition(":")
        limits[lane.strip()] = float(seconds)
    return limits


def limit_of(markers: Iterable[str], limits: Mapping[str, float]) -> float:
    """Give the limit of a test with these markers, in seconds."""
    return max((limits[each] for each in markers if each in limits), default=limits[FAST])


class Watch:
    """Looks after the test that runs. The real timer of the process is its own meanwhile."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._process = os.getpid()
        self._in_test = False
        #: Where everything stood when the limit was over; empty: it is not.
        self.told = ""

    def __enter__(self) -> "Watch":
        self._before = signal.signal(signal.SIGALRM, self._over)
        signal.setitimer(signal.ITIMER_REAL, self._limit_s, AGAIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def phase(self) -> Generator[None, T, T]:
        """Be the wrapper of one phase: what was over its limit fails, whatever else it did."""
        known = self.told
        self._in_test = True
        try:
            result = yield
        except OverLimitError:
            pass
        except KeyboardInterrupt:
            raise  # a person's
        except BaseException as error:
            if self.told == known:
                raise
            self._in_test = False
            raise pytest.fail.Exception(self.told, pytrace=False) from error
        else:
            if self.told == known:
                return result
        finally:
            self._in_test = False
        raise pytest.fail.Exception(self.told, pytrace=False)

    def _over(self, number: int, frame: FrameType | None) -> None:
        del frame
        if os.getpid() != self._process:  # a child that was forked, and has an alarm of its own
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self._in_test:
            self.told = f"a test of this lane may take {self._limit_s:g} s\n\n{_where_all_stand()}"
            raise OverLimitError(self.told)


def _where_all_stand() -> str:
    """Give the stacks of all threads, and of the tasks of the loop that runs in this one."""
    told = io.StringIO()
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        told.write(file.read())
    try:
        tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    except RuntimeError:  # no loop runs
        tasks = []
    for task in tasks[:TASKS_MAX]:
        told.write("\n")
        task.print_stack(file=told)
    return told.getvalue()


_WATCH: Final = pytest.StashKey[Watch]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting."""
    parser.addini("limits", "how long a test of each lane may take: `lane: seconds`", "linelist")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, T, T]:
    """Watch a test from its set-up to the end of its tear-down; not under a debugger."""
    option = item.config.option
    in_main = threading.current_thread() is threading.main_thread()
    if option.usepdb or option.trace or not in_main:
        return (yield)
    limits = limits_of(item.config.getini("limits"))
    markers = [marker.name for marker in item.iter_markers()]
    with Watch(limit_of(markers, limits)) as item.stash[_WATCH]:
        return (yield)


def _phase(item: pytest.Item) -> Generator[None, T, T]:
    watch = item.stash.get(_WATCH, None)
    if watch is None:
        return (yield)
    return (yield from watch.phase())


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, T, T]:
    """Interrupt the set-up."""
    return (yield from _phase(item))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, T, T]:
    """Interrupt the test."""
    return (yield from _phase(item))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, T, T]:
    """Interrupt the tear-down."""
    return (yield from _phase(item))
