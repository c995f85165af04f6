"""What changes ledgers waits for the disk like what fills them, and no more of it."""

import dataclasses

from tests.bookie.running import Outcomes, frame, lac_packet, open_fragment, opening, running
from zonekeeper.bookie.memory_files import MemoryFileSystem
from zonekeeper.bookie.service import Limits
from zonekeeper.placement.ids import BookieId, LedgerId
from zonekeeper.wire import carriers, errors, openings


async def test_openings_and_lacs_beyond_what_may_wait_are_refused() -> None:
    names = (BookieId("b" * 5_000),) * 3
    large = dataclasses.replace(opening(), ensemble=names)
    most = 4 * openings.size_of(large)
    async with running(MemoryFileSystem(), limits=Limits(waiting_bytes_max=most)) as bookie:
        await open_fragment(bookie, opening())
        heard, count = Outcomes(), 20
        bookie.append(
            [
                carriers.Open(
                    number=number,
                    opening=dataclasses.replace(large, ledger_id=LedgerId(100 + number)),
                )
                for number in range(count)
            ],
            heard,
        )
        packet = lac_packet(0)
        bookie.append(
            [
                carriers.WriteLac(number=count, ledger_id=opening().ledger_id, packet=packet),
                carriers.Append(number=count + 1, frame=frame(0)),
            ],
            heard,
        )
        outcomes = [await heard.of(number) for number in range(count + 2)]
        taken = outcomes.index(next(filter(None, outcomes)))
        assert 3 <= taken <= 5
        for refused in outcomes[taken:]:
            assert isinstance(refused, errors.TooManyRequests)
            assert f"the limit is {most}" in str(refused)
        await open_fragment(bookie, dataclasses.replace(large, ledger_id=LedgerId(100 + count)))
