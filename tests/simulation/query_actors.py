"""Queries that write the log of a simulated world: drivers, tasks, and what outlives them.

A query has a checkpoint, which outlives its drivers: the batch that comes next. A driver runs the
tasks of a batch, publishes, and then moves the checkpoint. A batch has the same messages in every
run. What may happen on the way:

- An attempt fails, dies and leaves its ledger, or has a twin that runs at the same time
  (speculation). One part a partition gets to the driver.
- The driver dies before it publishes, or between that and the checkpoint. The next run begins.
- The driver is thought dead while it publishes: the next run begins beside it.
- A run is a job now and then: a query of one batch under an id of its own, which may be aborted.
"""

import asyncio
from random import Random
from typing import Final

from tests.simulation import log_sights
from tests.simulation.actors import Life
from tests.simulation.log_cast import NAME
from tests.simulation.log_consumers import is_late, note, note_failed
from zonekeeper.client.base.errors import ClientError
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.publishing.partitions import (
    AttemptEnd,
    BatchPart,
    IdlePartition,
    QueryBatch,
    SmallPartition,
)
from zonekeeper.log.publishing.query_logs import QueryLogs
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.placement.base.troubles import Trouble

#: Batches that a query brought in, and attempts that were given to a driver.
PUBLISHED: Final = "batches of queries published"
KNOWN: Final = "batches of queries discarded"
ATTEMPTS: Final = "attempts of queries"

_PARTITIONS_MAX: Final = 3
_MESSAGES_MAX: Final = 5
_TRIES_MAX: Final = 3
_PUBLISHING_S: Final = 20.0


class _DriverDied(Exception):
    """The driver is gone; what it began may go on without it."""


async def run_query(life: Life) -> None:
    """Run the query again and again, until everything is about to heal."""
    query = life.name
    async with asyncio.TaskGroup() as zombies:
        while not is_late(life):
            run = life.handle().replace("/", ".")
            try:
                if life.chance.random() < 0.2:
                    await _run_job(life, QueryRun(query=f"job.{run}", run=run), zombies)
                else:
                    await _run(life, QueryRun(query=query, run=run), zombies)
            except Trouble as error:
                note_failed(life.around, run, error)
            except _DriverDied:
                pass
            await asyncio.sleep(life.chance.random() / 3)
        await asyncio.sleep(3_600)


async def _run(life: Life, run: QueryRun, zombies: asyncio.TaskGroup) -> None:
    checkpoints = life.observer.board.checkpoints
    for _ in range(life.chance.randrange(1, 6)):
        if is_late(life):
            return
        batch = checkpoints.setdefault(run.query, 0)
        of = QueryBatch(log=NAME, run=run, batch=batch)
        await _published(life, of, await _tasks(life, of), zombies)
        if life.chance.random() < 0.2:
            raise _DriverDied
        checkpoints[run.query] = max(checkpoints[run.query], batch + 1)
        await asyncio.sleep(life.chance.random() * 0.1)


async def _run_job(life: Life, run: QueryRun, zombies: asyncio.TaskGroup) -> None:
    of = QueryBatch(log=NAME, run=run, batch=0, is_job=True)
    parts = await _tasks(life, of)
    if life.chance.random() < 0.6:
        await _published(life, of, parts, zombies)
    else:
        await _logs(life).end_job(NAME, run.query)
        note(life.around, log_sights.QueryAborted(query=run.query))


async def _published(
    life: Life, of: QueryBatch, parts: list[BatchPart], zombies: asyncio.TaskGroup
) -> None:
    chance = life.chance.random()
    if chance < 0.1:
        raise _DriverDied
    publishing = zombies.create_task(_publish(life, of, parts))
    if chance < 0.25:
        raise _DriverDied  # the process that publishes goes on
    if not await publishing:
        raise _DriverDied


async def _publish(life: Life, of: QueryBatch, parts: list[BatchPart]) -> bool:
    try:
        done = await _logs(life).publish(parts, limit_s=_PUBLISHING_S)
    except Trouble as error:
        note_failed(life.around, of.run.run, error)
        return False
    life.around.did(KNOWN, done.was_known)
    life.around.did(PUBLISHED, done.sequence is not None)
    written = [one for one in parts if not isinstance(one, IdlePartition)]
    if written:
        sight = log_sights.QueryPublished(
            query=of.run.query,
            batch=of.batch,
            log=written[0].log_id,
            sequence=done.sequence,
            values=_in_order(life, of, parts),
        )
        note(life.around, sight)
    return True


def _in_order(life: Life, of: QueryBatch, parts: list[BatchPart]) -> tuple[bytes, ...]:
    """Give the messages of a batch as they come in: attempts by ledger, and then the rest."""
    attempts = [one for one in parts if isinstance(one, AttemptEnd)]
    small = [one for one in parts if isinstance(one, SmallPartition)]
    places = [
        *(one.partition for one in sorted(attempts, key=lambda one: one.ledger)),
        *(one.partition for one in sorted(small, key=lambda one: one.partition)),
    ]
    batch = _messages(life, of)
    return tuple(value for partition in places for value in batch[partition])


def _messages(life: Life, of: QueryBatch) -> list[list[bytes]]:
    """Give the messages of a batch by partitions: in each run the same."""
    chance: Random = life.around.scenario.chance(f"batch {of.batch} of {of.run.query}")
    return [
        [
            f"{of.run.query}/{of.batch}/{partition}/{number}".encode()
            for number in range(chance.randrange(_MESSAGES_MAX + 1))
        ]
        for partition in range(chance.randrange(1, _PARTITIONS_MAX + 1))
    ]


async def _tasks(life: Life, of: QueryBatch) -> list[BatchPart]:
    batch = _messages(life, of)
    values = tuple(value for partition in batch for value in partition)
    note(life.around, log_sights.QueryWrote(query=of.run.query, batch=of.batch, values=values))
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(_task(life, of, partition, some))
            for partition, some in enumerate(batch)
        ]
    parts: list[BatchPart] = []
    for task in running:
        part = task.result()
        if part is None:
            raise _DriverDied  # too many attempts of the task failed
        if isinstance(part, Trouble):
            raise part
        parts.append(part)
    return parts


async def _task(
    life: Life, of: QueryBatch, partition: int, values: list[bytes]
) -> BatchPart | Trouble | None:
    """Run a task: attempts until one succeeds, two at the same time now and then."""
    for _ in range(_TRIES_MAX):
        twins = 2 if life.chance.random() < 0.2 else 1
        done = await asyncio.gather(*(_attempt(life, of, partition, values) for _ in range(twins)))
        parts = [one for one in done if not isinstance(one, Trouble | None)]
        if parts:
            life.around.did(ATTEMPTS)
            return life.chance.choice(parts)
        for one in done:
            if isinstance(one, Trouble) and not isinstance(one, ClientError):
                return one
    return None


async def _attempt(
    life: Life, of: QueryBatch, partition: int, values: list[bytes]
) -> BatchPart | Trouble | None:
    """Make an attempt; None: it died in the middle, and leaves what it wrote."""
    attempt = _logs(life).attempt(of, partition)
    dies = life.chance.randrange(len(values) + 1) if life.chance.random() < 0.15 else None
    try:
        for number, value in enumerate(values):
            if number == dies:
                return None
            await attempt.append_many([LogMessage(payload=value)])
        part = await attempt.finish()
    except Trouble as error:
        if life.chance.random() < 0.5:
            await attempt.discard()
        return error
    return None if dies == len(values) else part


def _logs(life: Life) -> QueryLogs:
    return QueryLogs(life.the_client, life.around.now_ms)
