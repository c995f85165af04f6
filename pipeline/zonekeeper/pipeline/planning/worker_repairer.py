"""One repairer a Python worker: the tasks that a worker runs one after the other share it.

A repairer remembers between attempts: claims that an outage of the store left behind, and how long
the writers of open ledgers have had. A task that had one of its own would forget that. It lives as
long as the worker's view, so a view that is made anew has a new one, and a forked child makes one
of its own.

The byte rate of a task is set when the task begins; a worker runs one task at a time.
"""

import os
import random
import re
import socket
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view.pace import BytePace
from zonekeeper.replication.view.view import View

#: What cannot stand in the name of a claim.
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")
_HOST_LETTERS_MAX: Final = 100


class WorkerRepairer:
    """A repairer with the byte rate of the task that runs now. It is made on the loop."""

    def __init__(self, client: Client, view: View) -> None:
        #: 0: no limit but that of the policy.
        self.bytes_per_second = 0
        #: The rate of the task, for all that it copies and reads.
        self.pace = BytePace(lambda: self.bytes_per_second)
        self.repairer = Repairer(
            client, view, name=name(), chance=random.SystemRandom(), further_pace=self.pace
        )


#: By process and address.
_MADE: Final[dict[tuple[int, str], WorkerRepairer]] = {}


def of(metadata: str, client: Client, view: View, bytes_per_second: int) -> WorkerRepairer:
    """Give this worker's repairer of a cluster, for a task of this byte rate; called on the loop.

    The rate is 0 for no limit but that of the policy.
    """
    key = (os.getpid(), metadata)
    made = _MADE.get(key)
    if made is None or made.repairer.client is not client or made.repairer.view is not view:
        made = _MADE[key] = WorkerRepairer(client, view)
    made.bytes_per_second = bytes_per_second
    return made


def name() -> BookieId:
    """Name this process in claims."""
    host = _NOT_IN_NAMES.sub("-", socket.gethostname())[:_HOST_LETTERS_MAX] or "host"
    return BookieId(f"zone-repair-{host}-{os.getpid()}")
