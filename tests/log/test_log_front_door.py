"""All that an application needs is imported from ``zonekeeper.log``."""

import pytest

from zonekeeper import log


@pytest.mark.parametrize("name", log.__all__)
def test_each_name_is_there(name: str) -> None:
    assert getattr(log, name) is not None
    assert name in dir(log)


def test_no_other_name_is() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = getattr(log, "nothing")  # noqa: B009 mypy refuses the plain spelling
