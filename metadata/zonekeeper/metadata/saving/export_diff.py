"""The differences between two roots, node by node; neither root is held in memory."""

import enum
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from zonekeeper.metadata.saving.export_format import ExportNode


class Side(enum.Enum):
    """The root that has a node."""

    FIRST = "-"
    SECOND = "+"
    #: Both have it, with different values.
    BOTH = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One node that is not the same in both roots."""

    side: Side
    suffix: str
    first: bytes | None
    second: bytes | None


async def differences(
    first: AsyncIterator[ExportNode], second: AsyncIterator[ExportNode]
) -> AsyncGenerator[Difference, None]:
    """Compare two roots, each in the order of an export."""
    a, b = await anext(first, None), await anext(second, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a.order < b.order):
            assert a is not None, "one of the two goes on"
            yield Difference(side=Side.FIRST, suffix=a.suffix, first=a.value, second=None)
            a = await anext(first, None)
        elif a is None or b.order < a.order:
            yield Difference(side=Side.SECOND, suffix=b.suffix, first=None, second=b.value)
            b = await anext(second, None)
        else:
            if a.value != b.value:
                yield Difference(side=Side.BOTH, suffix=a.suffix, first=a.value, second=b.value)
            a, b = await anext(first, None), await anext(second, None)
