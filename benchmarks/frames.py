"""What a frame costs the processor: building and reading it, beside bare crc32c and memcpy.

Every round runs every case once, in a new order; figures are medians, and each ratio is the median
of the rounds' own ratios to the *floor* of that round: the payload summed twice (its digest and the
frame's checksum) and copied once. CPU time of this thread, so that a busy machine does not show.
"""

import random
import time
from collections.abc import Callable
from statistics import median

from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats import carriers, checksums, entries, frames

ROUNDS = 15
#: Each timing takes at least this long, far above the clock's resolution.
TIMING_NS = 20_000_000
#: Payload bytes and entries of a frame; frames of up to about 1 MiB, as carriers aim at.
SHAPES = ((100, 1000), (1024, 1000), (65536, 15))


def cases(size: int, count: int) -> dict[str, Callable[[], object]]:
    """Give what is measured, each a call that handles one frame of so many entries."""
    chance = random.Random(size)
    payloads = [chance.randbytes(size) for _ in range(count)]
    together = b"".join(payloads)
    sealer = entries.Sealer(LedgerId(7), Digest.CRC32C, b"passwd")
    first = EntryId(0)
    frame = frames.seal(sealer, first, NO_ENTRY, 0, payloads)
    items = [carriers.Append(number=1, frame=frame)]
    carrier = carriers.build(items)
    return {
        "memcpy": lambda: bytearray(together),
        "crc32c": lambda: [checksums.value(payload) for payload in payloads],
        "seal: digests, frame": lambda: frames.seal(sealer, first, NO_ENTRY, 0, payloads),
        "carrier: build": lambda: carriers.build(items),
        "carrier: parse": lambda: carriers.parse(carrier),
        "unseal: check digests": lambda: frames.unseal(sealer, frame),
    }


def cost_ns(work: Callable[[], object]) -> float:
    """Give the CPU time of one call."""
    calls, began = 0, time.thread_time_ns()
    while (spent := time.thread_time_ns() - began) < TIMING_NS:
        work()
        calls += 1
    return spent / calls


def measure(size: int, count: int, chance: random.Random) -> dict[str, list[float]]:
    """Give each case's CPU nanoseconds an entry, round by round."""
    found: dict[str, list[float]] = {}
    work = cases(size, count)
    for _ in range(ROUNDS):
        names = list(work)
        chance.shuffle(names)
        for name in names:
            found.setdefault(name, []).append(cost_ns(work[name]) / count)
    return {name: found[name] for name in work}


def main() -> None:
    """Print the table."""
    chance = random.Random(1)
    print(f"crc32c by {checksums.IMPLEMENTATION}; {ROUNDS} rounds; floor = 2 x crc32c + memcpy")
    print(f"{'':24}{'us/entry':>10}{'min':>8}{'max':>8}{'x floor':>9}{'k/CPU-s':>9}")
    for size, count in SHAPES:
        print(f"{size} B, {count} entries a frame")
        found = measure(size, count, chance)
        floor = [2 * crc + copy for crc, copy in zip(found["crc32c"], found["memcpy"], strict=True)]
        for name, rounds in found.items():
            ratio = median(cost / least for cost, least in zip(rounds, floor, strict=True))
            cost = median(rounds)
            print(
                f"  {name:22}{cost / 1000:10.3f}{min(rounds) / 1000:8.3f}{max(rounds) / 1000:8.3f}"
                f"{ratio:9.2f}{1e6 / cost:9.0f}"
            )


if __name__ == "__main__":
    main()
