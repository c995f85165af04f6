"""One client a worker: shared by its tasks and threads, forgotten by a fork, and made anew."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.client.forking import in_a_fork
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import ClientEnded
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.base.worker_client import CLIENTS_MAX, KeptClient, KeptClients
from zonekeeper.placement.base.troubles import Trouble

LIMIT_S = 60


class Opened:
    """Opens clients of one local cluster, whatever address is asked for, and notes what it did."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.fails = 0
        self.may_open = threading.Event()
        self.may_open.set()

    @contextmanager
    def __call__(self, metadata: str, config: ClientConfig) -> Iterator[KeptClient]:
        assert self.may_open.wait(LIMIT_S)
        self.opened.append(metadata)
        if self.fails:
            self.fails -= 1
            raise Trouble("no store")
        with worker_client.connect(self.uri, config) as made:
            try:
                yield made
            finally:
                self.closed.append(metadata)


@pytest.fixture
def opening(pipeline_root: str) -> Opened:
    return Opened(pipeline_root)


@pytest.fixture
def kept(opening: Opened) -> Iterator[KeptClients]:
    clients = KeptClients(opening)
    yield clients
    clients.close()


def test_one_address_and_settings_have_one_client(kept: KeptClients, opening: Opened) -> None:
    one = kept.get("a")

    assert kept.get("a", ClientConfig()) is one
    assert one.logs.figures is not None
    assert list(one.ledgers.ledgers()) == []
    assert kept.get("a", ClientConfig(zone="z")) is not one
    assert kept.get("a", replace(ClientConfig(), password=b"p")) is not one
    assert kept.get("b") is not one
    assert opening.opened == ["a", "a", "a", "b"]


def test_threads_that_ask_at_once_share_one(kept: KeptClients, opening: Opened) -> None:
    opening.may_open.clear()
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(kept.get, "a") for _ in range(8)]
        opening.may_open.set()
        assert len({id(one.result(LIMIT_S)) for one in asked}) == 1
    assert opening.opened == ["a"]


def test_an_address_that_does_not_answer_delays_no_other(
    kept: KeptClients, opening: Opened
) -> None:
    kept.get("b")
    opening.may_open.clear()
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(kept.get, "a")
        assert kept.get("b") is not None
        opening.may_open.set()
        assert slow.result(LIMIT_S) is not kept.get("b")


def test_a_failure_to_connect_is_not_kept(kept: KeptClients, opening: Opened) -> None:
    opening.fails = 1
    with pytest.raises(Trouble, match="no store"):
        kept.get("a")

    assert kept.get("a") is kept.get("a")
    assert opening.opened == ["a", "a"]


def test_a_client_that_has_ended_is_made_anew(kept: KeptClients, opening: Opened) -> None:
    one = kept.get("a")
    one.calls.end()
    with pytest.raises(ClientEnded):
        list(one.ledgers.ledgers())

    assert list(kept.get("a").ledgers.ledgers()) == []
    assert (opening.opened, opening.closed) == (["a", "a"], ["a"])


def test_more_than_the_limit_end_the_one_that_was_not_asked_for_the_longest(
    kept: KeptClients, opening: Opened
) -> None:
    names = [f"{number}" for number in range(CLIENTS_MAX)]
    for name in names:
        kept.get(name)
    kept.get(names[0])
    kept.get("more")

    assert opening.closed == [names[1]]


def test_all_end_together(kept: KeptClients, opening: Opened) -> None:
    one = kept.get("a")
    kept.close()

    assert one.is_over
    assert opening.closed == ["a"]


def test_a_forked_child_forgets_its_parents_clients_and_closes_none(
    kept: KeptClients, opening: Opened
) -> None:
    one = kept.get("a")

    def child() -> bool:
        kept._lock.acquire()  # another thread of the parent had it at the fork
        kept.forked()
        opening.fails = 1
        try:
            kept.get("a")
        except Trouble:
            return opening.opened == ["a", "a"] and not opening.closed
        return False

    assert in_a_fork(child)
    assert kept.get("a") is one
    assert not one.is_over


def test_the_worker_s_own_clients_are_forgotten_by_each_fork(pipeline_root: str) -> None:
    held = worker_client.client(pipeline_root)
    try:
        assert worker_client.client(pipeline_root) is held
        assert in_a_fork(lambda: not worker_client._KEPT._slots)
        assert worker_client.logs(pipeline_root) is worker_client.logs(pipeline_root)
    finally:
        worker_client._KEPT.close()


def test_a_store_that_is_not_there_is_told_each_time(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises((Trouble, OSError), match="nowhere"):
            worker_client.client(f"sqlite://{tmp_path}/nowhere/meta.db")
