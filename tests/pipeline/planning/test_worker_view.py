"""One view a worker: tasks share it, and it is made anew when its client has ended."""

import os
from collections.abc import Iterator

import pytest

from tests.client.forking import in_a_fork
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import ClientEnded
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.jobs import replica_audit
from zonekeeper.pipeline.planning import job_options, worker_view


@pytest.fixture
def kept(pipeline_root: str) -> Iterator[KeptClient]:
    with worker_client.connect(pipeline_root, ClientConfig()) as made:
        yield made


def test_tasks_share_a_view(kept: KeptClient) -> None:
    first = worker_view.of("a", kept)
    assert worker_view.of("a", kept).view is first.view
    assert worker_view.of("b", kept).view is not first.view
    assert first.view.looks >= 1, "it is known"
    first.check()


def test_a_client_that_is_made_anew_gets_a_view_of_its_own(
    kept: KeptClient, pipeline_root: str
) -> None:
    first = worker_view.of("a", kept)
    with worker_client.connect(pipeline_root, ClientConfig()) as other:
        second = worker_view.of("a", other)
        assert second.view is not first.view
        with pytest.raises(ClientEnded):
            first.check()


def test_a_view_that_has_ended_is_made_anew(kept: KeptClient) -> None:
    first = worker_view.of("a", kept)
    worker_view._VIEWS[os.getpid(), "a"].calls.end()
    with pytest.raises(ClientEnded):
        first.check()
    assert worker_view.of("a", kept).view is not first.view


def test_a_forked_child_has_none(kept: KeptClient) -> None:
    worker_view.of("a", kept)
    assert in_a_fork(lambda: (os.getpid(), "a") not in worker_view._VIEWS)


def test_the_driver_says_what_holds_and_nothing_of_what_it_has_not_seen_yet(
    pipeline_root: str,
) -> None:
    table = job_options.EVERY_JOB + job_options.OF_READING
    options = job_options.parse({"metadata": pipeline_root}, table)
    with replica_audit.held(options) as held:
        assert held() is None, "no zone was evaluated: the plan refuses that, not the driver"
