"""The faults that change much at once: lost disks, the store away or set back, half-open ways.

Like those of ``nemesis``, each is one that the promises cover. A disk is lost only if less than an
ack quorum of every ensemble then owes what it has lost. The store comes back with all that it
acknowledged, or is set back to a backup, as a person may do with it: then it is about what bookies
keep, and about ledgers that are created from then on.
"""

import dataclasses
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Final

from tests.simulation import people
from tests.simulation.actors import Actor, Observer
from tests.simulation.loop import loop
from tests.simulation.machine import Machine
from tests.simulation.scenarios import Fault, Kind, MetaWeather
from tests.simulation.surroundings import Surroundings
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats.frames import Flags, Frame

#: So long answers are lost before the store is out of reach: what was asked for is done then.
_UNANSWERED_MS: Final = 80
#: A stranger looks so often whether there is a limbo to end.
_LOOK_AGAIN_MS: Final = 25
#: Recoverers do not reach members for so long: it ends while they stand still.
_BEYOND_MS: Final = 500
#: Newcomers have answered by then, or not, and the recovery has perhaps begun to do more.
_ANSWERED_MS: Final = (3, 25)
#: Recoverers stand still for so long, and up to twice that.
_STANDS_STILL_MS: Final = 600
#: Some lost disks come with a writer that dies, and a member that lacks what it wrote last.
_BEHIND: Final = 0.5
_BEHIND_MS: Final = 300


class Upheavals:
    """Makes them happen; ``ways`` does a fault of each kind, and says whether it found a target."""

    def __init__(
        self,
        around: Surroundings,
        machines: Mapping[BookieId, Machine],
        actors: Mapping[str, Actor],
        observer: Observer,
        cut: Callable[[Sequence[tuple[str, str]], Fault], bool],
        do: Callable[[Fault], None],
    ) -> None:
        self._around = around
        self._machines = machines
        self._actors = actors
        self._observer = observer
        self._cut = cut
        self._do = do
        self._chance = around.scenario.chance("upheavals")
        self.ways: Mapping[Kind, Callable[[Fault], bool]] = {
            Kind.DISK_GONE: self._lose_disk,
            Kind.LEDGER_GONE: self._delete_any,
            Kind.STRANGER: self._end_limbo,
            Kind.HALF_OPEN: self._leave_half_open,
            Kind.STORE_OUTAGE: self._take_store_away,
            Kind.SET_BACK: self._set_back,
        }
        #: The ledger whose newcomers lose their disks, and those that took entries of it by now.
        self._hunted: LedgerId | None = None
        self._newcomers: dict[BookieId, None] = {}
        self._healed = False

    def heal(self) -> None:
        """Begin nothing more."""
        self._healed = True
        self._hunted = None

    def prepare(self, fault: Fault) -> None:
        """Take the backup that the store is set back to."""
        if fault.kind is Kind.SET_BACK:
            self._around.later(
                fault.at_ms - fault.for_ms - self._around.now_ms(), self._around.server.back_up
            )

    # ── disks ──

    def _lose_disk(self, fault: Fault) -> bool:
        machine = self._machines[BookieId(fault.target)]
        if machine.diskless or not self._observer.ledgers or not self._observer.board.writer:
            return False
        if not self._survives({machine.id}):
            return False
        if self._chance.random() < _BEHIND:
            self._leave_behind(machine, fault)
        else:
            self._without_disk(machine, fault)
        return True

    def _leave_behind(self, machine: Machine, fault: Fault) -> None:
        """Let another member lack what the newest writer writes, until that dies with the disk."""
        ensemble = self._observer.ledgers[max(self._observer.ledgers)].last_fragment.ensemble
        others = [bookie for bookie in ensemble if bookie != machine.id]
        dies = dataclasses.replace(
            fault, kind=Kind.CLIENT_KILL, target=self._observer.board.writer, for_ms=_BEHIND_MS
        )
        behind = dataclasses.replace(fault, for_ms=_BEHIND_MS)
        self._cut([(dies.target, self._chance.choice(others))], behind)
        after_ms = self._chance.randrange(_BEHIND_MS)

        def lose() -> None:
            if not self._healed and not machine.diskless and self._survives({machine.id}):
                self._do(dies)
                self._without_disk(machine, fault)

        self._around.later(after_ms, lose)

    def _survives(self, losing: set[BookieId]) -> bool:
        """Has each entry an ack quorum of members still that owe nothing of it, but one?"""
        return all(
            len(
                {
                    one
                    for one in fragment.ensemble
                    if one in losing or self._machines[one].owes(ledger_id)
                }
            )
            < ledger.ack_quorum
            for ledger_id, ledger in self._observer.ledgers.items()
            for fragment in ledger.fragments
        )

    def _without_disk(self, machine: Machine, fault: Fault) -> None:
        machine.lose_disk()
        self._begin(
            "a person, with a disk", people.replace_disk(self._around, machine, fault.for_ms)
        )

    def _end_limbo(self, fault: Fault) -> bool:
        there = [one for one in self._machines.values() if one.serving and one.in_limbo()]
        for machine in there:
            assert machine.process is not None, "it serves"
            self._around.tasks.create_task(machine.end_limbo(), context=machine.process.context)
        if not there and not self._healed:
            self._around.later(_LOOK_AGAIN_MS, partial(self._do, fault))
        return bool(there)

    # ── newcomers of recoveries ──

    def hunt(self, fault: Fault, ledger_id: LedgerId, beyond: list[BookieId]) -> bool:
        """Cut what recoverers send off from some members; then newcomers come."""
        if not beyond or self._hunted is not None:
            return False
        ways = [(name, bookie) for name in self._recoverers() for bookie in beyond]
        self._cut(ways, dataclasses.replace(fault, for_ms=_BEYOND_MS))
        self._hunted, self._newcomers = ledger_id, {}
        return True

    def arrived(self, bookie: BookieId, frame: Frame) -> None:
        """Hear of a frame at a bookie: of the hunted ledger, it may be a newcomer's first."""
        ledger = self._observer.ledgers.get(frame.ledger_id)
        if frame.ledger_id != self._hunted or ledger is None or ledger.is_closed:
            return
        if Flags.RECOVERY not in frame.flags or bookie in ledger.bookies:
            return
        if not self._newcomers:
            self._around.later(self._chance.randrange(*_ANSWERED_MS), self._strike)
        self._newcomers[bookie] = None

    def _strike(self) -> None:
        """Let recoverers stand still, and newcomers lose all and come back meanwhile."""
        hunted, self._hunted = self._hunted, None
        if hunted is None or not self._survives(set(self._newcomers)):
            return
        for_ms = _STANDS_STILL_MS + self._chance.randrange(_STANDS_STILL_MS)
        for name in self._recoverers():
            life = self._actors[name].life
            if life is not None:
                loop().pause(life.process)
                self._around.later(for_ms, partial(loop().go_on, life.process))
        for bookie in self._newcomers:
            machine = self._machines[bookie]
            if not machine.diskless:
                fault = Fault(at_ms=0, kind=Kind.DISK_GONE, target=bookie, for_ms=0)
                self._without_disk(machine, fault)

    def _recoverers(self) -> list[str]:
        return [name for name in self._actors if name.startswith("recoverer")]

    # ── ledgers, connections ──

    def _delete_any(self, fault: Fault) -> bool:
        del fault
        if not self._observer.ledgers:
            return False
        ledger_id = self._chance.choice(list(self._observer.ledgers))

        async def delete() -> None:
            await people.delete(self._around, self._observer, ledger_id)

        self._begin("a person, who deletes", delete())
        return True

    def _leave_half_open(self, fault: Fault) -> bool:
        machine = self._machines[BookieId(fault.target)]
        if machine.serving is None:
            return False
        machine.crash(power=True, half_open=True)
        self._around.later(fault.for_ms, machine.start)
        return True

    def _begin(self, who: str, does: Coroutine[None, None, None]) -> None:
        process = self._around.process(who)
        self._around.tasks.create_task(does, context=process.context)

    # ── the metadata store ──

    def _take_store_away(self, fault: Fault) -> bool:
        """Lose answers, and then all; sessions last where the store itself stood still."""
        calm, stood_still = self._around.meta, self._chance.random() < 0.5
        self._around.meta = MetaWeather(delay_max_ms=calm.delay_max_ms, answer_loss=1.0)

        def go_away() -> None:
            self._around.meta = calm
            self._around.cut_stores(sessions_last=stood_still)

        self._around.later(_UNANSWERED_MS, go_away)
        self._around.later(_UNANSWERED_MS + fault.for_ms, self._around.mend_stores)
        return True

    def _set_back(self, fault: Fault) -> bool:
        del fault
        return self._around.server.set_back()
