"""Which pending items go into the next message: coalescing without timers.

A message costs about the same whether it holds one small item or hundreds. So: whenever fewer than
``in_flight_max`` messages are under way, the next one takes what is pending, up to a size at which
cost grows with the bytes anyway. An item that comes alone leaves at once; a flood waits for a
message to finish, and that is what fills the next one. Nothing ever waits for a clock.

Items come in flows (a ledger's frames at a link, a ledger's entries at its writer). Order is kept
inside a flow. Flows take turns, one item each, so that a flood in one flow delays another by a turn
and not by its whole backlog, and many slow flows share a message.

Invariants: an item is in exactly one of pending, taken and dropped; at most ``in_flight_max``
batches are taken and not finished; a batch is over ``aim_bytes`` only if it is a single item. This
is bookkeeping alone: limits on what is pending are the caller's, who can say no to somebody.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

#: Fewer leave the network idle between messages, more make them smaller.
IN_FLIGHT_MAX: Final = 3

FlowT = TypeVar("FlowT", bound=Hashable)
ItemT = TypeVar("ItemT")


class Coalescer(Generic[FlowT, ItemT]):
    """The pending items of many flows, and how many messages are under way."""

    __slots__ = ("_aim_bytes", "_flows", "_in_flight", "_in_flight_max", "_items_max")

    def __init__(
        self, *, aim_bytes: int, items_max: int, in_flight_max: int = IN_FLIGHT_MAX
    ) -> None:
        assert aim_bytes > 0
        assert items_max > 0
        assert in_flight_max > 0
        self._aim_bytes = aim_bytes
        self._items_max = items_max
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        #: Items with their sizes, of the flows that have any; the first flow has the next turn.
        #: Ordered by links: finding a plain dict's first key slows down with each one removed.
        self._flows: OrderedDict[FlowT, deque[tuple[ItemT, int]]] = OrderedDict()

    @property
    def in_flight(self) -> int:
        """How many batches were taken and are not finished."""
        return self._in_flight

    def put(self, flow: FlowT, item: ItemT, size_bytes: int) -> None:
        """Add an item at the end of its flow."""
        queue = self._flows.get(flow)
        if queue is None:
            queue = self._flows[flow] = deque()
        queue.append((item, size_bytes))

    def take(self) -> list[ItemT]:
        """Give the next message's items; empty if it may not leave yet, or nothing is pending.

        What is given counts as under way until ``finished`` is called, once a batch.
        """
        if self._in_flight >= self._in_flight_max or not self._flows:
            return []
        batch: list[ItemT] = []
        room = self._aim_bytes
        while self._flows and len(batch) < self._items_max:
            flow = next(iter(self._flows))
            queue = self._flows[flow]
            item, size_bytes = queue[0]
            if batch and size_bytes > room:
                break  # its turn stays: it opens the next message
            queue.popleft()
            room -= size_bytes
            batch.append(item)
            if queue:
                self._flows.move_to_end(flow)
            else:
                del self._flows[flow]
        self._in_flight += 1
        return batch

    def finished(self) -> None:
        """Say that a batch is no longer under way."""
        assert self._in_flight > 0
        self._in_flight -= 1

    def drop(self, flow: FlowT) -> list[ItemT]:
        """Take everything that is pending in a flow out, in order: it will not be sent."""
        return [item for item, _ in self._flows.pop(flow, ())]

    def drop_while(self, doomed: Callable[[ItemT], bool]) -> list[ItemT]:
        """Take the oldest pending items of each flow out, up to its first that is not doomed."""
        dropped: list[ItemT] = []
        for flow, queue in list(self._flows.items()):
            while queue and doomed(queue[0][0]):
                dropped.append(queue.popleft()[0])
            if not queue:
                del self._flows[flow]
        return dropped
