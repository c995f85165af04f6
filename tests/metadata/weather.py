"""Weather for a store in memory: a write or its answer is lost, or something happens before it."""

from collections.abc import Callable, Iterator

from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind, calm


def lose(store: MetadataStore, number: int, loss: ExchangeLoss) -> None:
    """Lose something of the write with a number, counted from 0, from now on."""
    assert isinstance(store, MemoryStore)
    writes: Iterator[int] = iter(range(1_000_000))

    def weather(kind: RequestKind) -> Passage:
        if kind is RequestKind.WRITE and next(writes) == number:
            return Passage(loss=loss)
        return Passage()

    store.weather = weather


def before_write(store: MetadataStore, happens: Callable[[], object]) -> None:
    """Let something happen just before the next write is sent."""
    assert isinstance(store, MemoryStore)

    def weather(kind: RequestKind) -> Passage:
        if kind is RequestKind.WRITE:
            store.weather = calm
            happens()
        return Passage()

    store.weather = weather
