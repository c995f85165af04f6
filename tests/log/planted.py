"""A bug that is planted must fail the directed test that is about it."""

from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tests.simulation import campaign
from tests.simulation.patching import Patch, patched

#: A bug that is planted where it does not fit.
MISFITS: Final = (TypeError, AttributeError)


def check_is_seen(patches: Callable[[], Sequence[Patch]], test: Callable[[], None]) -> None:
    """Hold that a test fails while a bug is there, and not because the bug does not fit."""
    failures: list[BaseException] = []
    try:
        with campaign.quiet(), patched(patches()):
            test()
    except* (Exception, pytest.fail.Exception) as failed:  # noqa: BLE001 a test may fail in any way
        failures += failed.exceptions
    assert failures, "the bug is not seen"
    assert not any(isinstance(one, MISFITS) for one in failures), failures
