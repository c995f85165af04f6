"""A candidate of logs: ``python -m tests.takeover.standby_actor ADDRESS NAME ZONE BURST LOG...``

It stands by for the logs, for the zones a and b, and says ``ready``, then ``stands`` once it is a
candidate of all. When it is its turn with a log it says ``turn LOG FIRST OPENING_MS`` and appends
bursts of so many messages; after each acknowledgement ``acked LOG END``: messages below END are
stored. With a burst of 0 it appends one message, and then waits. ``over LOG WHY``: the turn is
over.

It does what each line of its input says:

- ``cut`` and ``mend``: its session as a candidate is cut off from the store, and not its client.
- ``asked``: says ``asked COUNT``: its requests at the store since it said ``stands``.
- ``leave``: ends in order.

What a message holds is its sequence, and the candidate.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from tests.support.fronts import Front
from tests.support.python_process import run, tell
from zonekeeper.client.api import client as clients
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log import LogMessage
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_standby import LogStandby, LogTurn
from zonekeeper.log.standby.standing import SESSION_MS
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.zookeeper_client import ZooKeeperClient

ZONES: Final = ("a", "b")
_PAUSE_S: Final = 0.02
#: Nothing listens there.
_NOWHERE: Final = 1


class Asked:
    """Counts the requests of this process at ZooKeeper."""

    def __init__(self) -> None:
        self.count = 0
        for name in ("node", "children", "commit"):
            setattr(ZooKeeperClient, name, self._counted(getattr(ZooKeeperClient, name)))

    def _counted(self, done: Callable[..., Awaitable[object]]) -> Callable[..., object]:
        async def counted(*arguments: object, **named: object) -> object:
            self.count += 1
            return await done(*arguments, **named)

        return counted


class Actor:
    """The candidate."""

    def __init__(self, candidate: str, burst: int) -> None:
        self.leaving = asyncio.Event()
        self._candidate = candidate
        self._burst = burst

    async def serve(self, standby: LogStandby, name: str) -> None:
        while not self.leaving.is_set():
            async with standby.turn(name, ZONES) as turn:
                tell(f"turn {name} {turn.writer.next_sequence} {turn.opening_ms}")
                await self._write(turn, name)
            tell(f"over {name} {'lost' if turn.is_lost else 'given'}")

    async def _write(self, turn: LogTurn, name: str) -> None:
        writer = turn.writer
        while not self.leaving.is_set():
            for _ in range(max(1, self._burst)):
                content = f"{writer.next_sequence} {self._candidate}".encode()
                await writer.append(LogMessage(payload=content))
            await writer.stored(writer.next_sequence - 1)
            tell(f"acked {name} {writer.first_unstored}")
            if not self._burst:
                await turn.over()
                return
            await asyncio.sleep(_PAUSE_S)


async def main(address: str, candidate: str, zone: str, burst: str, *logs: str) -> None:
    asked, actor = Asked(), Actor(candidate, int(burst))
    port = int(address.partition("//")[2].partition("/")[0].rpartition(":")[2])
    front = Front(port)
    await front.open()
    through = address.replace(f":{port}/", f":{front.port}/")

    async def open_session() -> MetadataStore:
        return await open_store(through, Timeouts(session_ms=SESSION_MS), must_exist=True)

    async with clients.connect(address, ClientConfig(zone=zone)) as client:
        log = LogClient(client, clients._real(), open_session=open_session)
        async with (
            log.standby(candidate, address=candidate) as standby,
            asyncio.TaskGroup() as all_,
        ):
            tell("ready")
            serving = [all_.create_task(actor.serve(standby, name)) for name in logs]
            while not all(map(standby.stands_for, logs)):  # noqa: ASYNC110 a look from outside
                await asyncio.sleep(_PAUSE_S)
            asked.count = 0
            tell("stands")
            while line := await asyncio.to_thread(sys.stdin.readline):
                match line.strip():
                    case "cut":
                        front.leads_to = _NOWHERE
                        front.cut()
                    case "mend":
                        front.leads_to = port
                    case "asked":
                        tell(f"asked {asked.count}")
                    case "leave":
                        actor.leaving.set()
                        for task in serving:
                            if standby.counts.writing == 0:
                                task.cancel()
                        break
                    case other:
                        raise AssertionError(other)
            else:
                os._exit(0)
    await front.close()


if __name__ == "__main__":
    run(partial(main, *sys.argv[1:])())
