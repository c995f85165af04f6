"""What a process says of itself, held to what the system says of it."""

import mmap
import resource
import subprocess
import sys
from pathlib import Path

from zonekeeper.wire.running import process_figures


def figures() -> dict[str, float]:
    return {family.name: family.samples[()] for family in process_figures.families()}


def test_every_figure_is_told_and_explained() -> None:
    found = process_figures.families()
    assert {one.name for one in found} == {
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    }
    assert all(one.help.endswith(".") for one in found)


def test_memory_and_descriptors_move_with_what_is_used(tmp_path: Path) -> None:
    before = figures()
    # Memory of its own from the kernel: what the process has freed before may serve a bytearray.
    held = mmap.mmap(-1, 64 << 20)
    held.write(bytes([1]) * len(held))
    files = [(tmp_path / str(number)).open("w") for number in range(10)]
    after = figures()
    grown = after["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]
    assert grown > len(held) * 0.9
    assert after["process_open_fds"] - before["process_open_fds"] == len(files)
    assert after["process_max_fds"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert after["process_virtual_memory_bytes"] > after["process_resident_memory_bytes"]
    held.close()
    for file in files:
        file.close()


def test_the_start_is_that_of_the_process_whatever_it_is_called() -> None:
    started = figures()["process_start_time_seconds"]
    made_s = Path("/proc/self").stat().st_ctime
    assert started <= made_s + 60
    program = (
        "from pathlib import Path; from zonekeeper.wire.running import process_figures as figures; "
        "Path('/proc/self/comm').write_text('a) b 7'); "
        "print(dict((f.name, f.samples[()]) for f in figures.families())"
        "['process_start_time_seconds'])"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert started <= float(child.stdout) < started + 86_400
