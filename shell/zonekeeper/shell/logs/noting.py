"""Commands note which logs they saw, so that the user's shell completes their names.

A note is a help for people: what cannot be noted is left out, and no command fails for it.
"""

import os
from collections.abc import Callable, Collection
from pathlib import Path

from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.standby.handing_over import HandedOver
from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.shell.reaching import last_seen, seen_logs
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reaching.seen_logs import SeenLogs


def used(
    place: Place, client: LogClient, name: str, cursors: Collection[str] | None = None
) -> None:
    """Note that a log is there; ``cursors`` are all of its cursors, and None: not looked at."""
    _change(place, client, lambda seen: seen_logs.used(seen, name, cursors))


def standing(place: Place, client: LogClient, name: str, candidates: Collection[str]) -> None:
    """Note all candidates of a log."""
    _change(place, client, lambda seen: seen_logs.used(seen, name, candidates=candidates))


def handed_over(place: Place, client: LogClient, name: str, done: HandedOver) -> None:
    """Note that a log has the two candidates of a handover."""
    _change(
        place,
        client,
        lambda seen: seen_logs.used(
            seen, name, candidates={*seen.candidates(name), done.giver, done.taker}
        ),
    )


def cursor_used(place: Place, client: LogClient, name: str, cursor: str) -> None:
    """Note that a log has a cursor."""
    _change(
        place,
        client,
        lambda seen: seen_logs.used(seen, name, {*seen.cursors(name), cursor}),
    )


def cursor_gone(place: Place, client: LogClient, name: str, cursor: str) -> None:
    """Note that a log does not have a cursor."""
    _change(
        place,
        client,
        lambda seen: seen_logs.used(seen, name, {*seen.cursors(name)} - {cursor}),
    )


def gone(place: Place, client: LogClient, name: str) -> None:
    """Note that a log is not there."""
    _change(place, client, lambda seen: seen_logs.gone(seen, {name}))


class NotedListing:
    """Notes the logs of a listing, however many there are: at most ``LOGS_MAX`` are held."""

    def __init__(self, place: Place, client: LogClient, namespace: str | None) -> None:
        """``namespace`` is the one that is listed; None: all are."""
        self._place = place
        self._client = client
        store = _store(place)
        seen = None if store is None else seen_logs.recall(_folder(), store)
        self._names: list[str] = []
        #: Logs that were known before, and that the listing did not show yet.
        self._missing = {
            name
            for name in (() if seen is None else seen.names)
            if namespace is None or name.rpartition("/")[0] == namespace
        }

    def see(self, name: str) -> None:
        """Take a name of the listing."""
        self._missing.discard(name)
        if len(self._names) < seen_logs.LOGS_MAX:
            self._names.append(name)

    def end(self) -> None:
        """Note what was listed, to its end: known logs that it did not show are gone."""
        _change(
            self._place,
            self._client,
            lambda seen: seen_logs.listed(seen_logs.gone(seen, self._missing), self._names),
        )


def _change(place: Place, client: LogClient, changed: Callable[[SeenLogs], SeenLogs]) -> None:
    store = _store(place)
    if store is not None:
        seen_logs.change(_folder(), store, client.client.cluster.instance, changed)


def _store(place: Place) -> str | None:
    try:
        return last_seen.store_name(place.address)
    except BadStoreUriError:  # a store in memory is of one process
        return None


def _folder() -> Path:
    return seen_logs.cache_folder(os.environ)
