"""Coalescing without timers: which pending items go into the next message.

A message costs about the same whether it holds one small item or hundreds. So while fewer than
``IN_FLIGHT_MAX`` messages are under way, the next message takes the pending items, up to a size at
which the cost grows with the bytes anyway. A single item leaves at once. In a flood the items wait
until a message has finished, and so they fill the next message. Nothing ever waits for a clock.

Items come in flows (a ledger's frames at a link, a ledger's entries at its writer). The order
inside a flow is kept. Flows take turns, one item each. So a flood in one flow delays another flow
by one turn and not by the whole backlog, and many slow flows share a message.

Invariants: an item is in exactly one of pending, taken and dropped. ``0 <= in_flight <=
IN_FLIGHT_MAX``, where ``in_flight`` counts the batches that were taken and are not finished. A
batch is larger than ``aim_bytes`` only if it has a single item. This module only keeps books: the
caller limits the pending items, because only the caller can refuse one.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

#: With fewer the network is idle between messages; with more the messages get smaller.
IN_FLIGHT_MAX: Final = 3

FlowT = TypeVar("FlowT", bound=Hashable)
ItemT = TypeVar("ItemT")


class Coalescer(Generic[FlowT, ItemT]):
    """The pending items of many flows, and the number of messages under way."""

    __slots__ = ("_aim_bytes", "_flows", "_in_flight", "_items_max")

    def __init__(self, *, aim_bytes: int, items_max: int) -> None:
        assert aim_bytes > 0
        assert items_max > 0
        self._aim_bytes = aim_bytes
        self._items_max = items_max
        self._in_flight = 0
        #: The pending items with their sizes, by flow; the first flow has the next turn. It is a
        #: linked list: to find a plain dict's first key gets slower with each key removed.
        self._flows: OrderedDict[FlowT, deque[tuple[ItemT, int]]] = OrderedDict()

    @property
    def in_flight(self) -> int:
        """The number of batches that were taken and are not finished."""
        return self._in_flight

    def put(self, flow: FlowT, item: ItemT, size_bytes: int) -> None:
        """Add an item at the end of its flow."""
        queue = self._flows.get(flow)
        if queue is None:
            queue = self._flows[flow] = deque()
        queue.append((item, size_bytes))

    def take(self) -> list[ItemT]:
        """Give the next message's items; none if it may not leave yet, or nothing is pending.

        The batch counts as under way until the caller calls ``finished``, once for each batch.
        """
        if self._in_flight >= IN_FLIGHT_MAX or not self._flows:
            return []
        batch: list[ItemT] = []
        room = self._aim_bytes
        while self._flows and len(batch) < self._items_max:
            flow = next(iter(self._flows))
            queue = self._flows[flow]
            item, size_bytes = queue[0]
            if batch and size_bytes > room:
                break  # it keeps its turn, and is the first item of the next message
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
        """Note that a batch is no longer under way."""
        assert self._in_flight > 0
        self._in_flight -= 1

    def drop(self, flow: FlowT) -> list[ItemT]:
        """Remove all pending items of a flow, and give them in order: they will not be sent."""
        return [item for item, _ in self._flows.pop(flow, ())]

    def drop_while(self, doomed: Callable[[ItemT], bool]) -> list[ItemT]:
        """Remove the oldest items of each flow, up to the first that is not ``doomed``."""
        dropped: list[ItemT] = []
        for flow, queue in list(self._flows.items()):
            while queue and doomed(queue[0][0]):
                dropped.append(queue.popleft()[0])
            if not queue:
                del self._flows[flow]
        return dropped
