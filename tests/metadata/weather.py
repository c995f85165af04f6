"""Weather for a store in memory: the answer, or the request, of one write is lost."""

from collections.abc import Iterator

from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind


def lose(store: MetadataStore, number: int, loss: ExchangeLoss) -> None:
    """Lose something of the write with a number, counted from 0, from now on."""
    assert isinstance(store, MemoryStore)
    writes: Iterator[int] = iter(range(1_000_000))

    def weather(kind: RequestKind) -> Passage:
        if kind is RequestKind.WRITE and next(writes) == number:
            return Passage(loss=loss)
        return Passage()

    store.weather = weather
