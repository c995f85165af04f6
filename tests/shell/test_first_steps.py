"""What a newcomer types and runs: README's first steps, the examples, the snippets of the pages.

Each is run as it stands, on one local cluster. Only the address in a snippet is another one.
"""

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell.local_world import local_world
from tests.support.checkout_root import ROOT

pytestmark = pytest.mark.processes

LIMIT_S = 300
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
#: Pages with programs for a cluster without Spark and Kubernetes.
PAGES = ("README.md", "docs/client.md", "docs/local.md", "docs/log-streams.md")
#: What stands behind a snippet that has no address, and is a function of a reader.
CALLED = """
from zonekeeper.client import connect
async with connect({address!r}) as client:
    async with client.create() as writer:
        await writer.append(b"an entry")
    await print_all(await client.open(writer.ledger_id))
"""
ADDRESS = re.compile(r'"(?:zk|sqlite):[^"]*"')


def snippets() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8")
        for number, found in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)):
            yield f"{page}-{number}", found


SNIPPETS = dict(snippets())


def first_steps() -> list[str]:
    """Give the commands of README's first steps, as they stand."""
    section = (ROOT / "README.md").read_text("utf-8").partition("\n## First steps\n")[2]
    block = re.search(r"(?:^    \S.*\n)+", section, re.M)
    assert block is not None
    return [line.strip() for line in block[0].splitlines()]


def environment(home: Path) -> dict[str, str]:
    """Give what a newcomer's shell has, in an environment that was activated."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "PYTHONPATH": ""}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_world(tmp_path_factory.mktemp("examples") / "local") as world:
        up = world.data("up", "--bookies-per-zone", "1", "--autorecovery", "0")
        yield str(up["metadata"])


def ran(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env=env, check=False, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


def test_the_first_steps_of_the_readme_work_in_their_order(tmp_path: Path) -> None:
    steps = first_steps()
    assert steps[0].startswith("zonekeeper local up")
    assert steps[-1].startswith("zonekeeper local down --purge")
    env = environment(tmp_path)
    try:
        said = ran(["bash", "-euxc", "\n".join(steps)], env)
    finally:
        subprocess.run(["zonekeeper", "local", "down", "--purge"], env=env, check=False)
    assert said.count("entry 2: b'third'") == 2
    assert "everything is removed" in said
    assert not (tmp_path / ".zonekeeper" / "local").exists()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_as_it_stands(name: str, address: str, tmp_path: Path) -> None:
    env = {**environment(tmp_path), "ZONEKEEPER_METADATA": address}
    said = ran([sys.executable, "-W", "error", f"examples/{name}"], env)
    last = said.splitlines()[-1]
    assert (
        last
        == {
            "write_and_read.py": said.splitlines()[0].replace("0: b'first'", "2: b'third'"),
            "follow.py": "10 entries",
            "append_to_a_log.py": "2000 messages",
            "take_over.py": f"written on in ledger {last.rpartition(' ')[2]}",
        }[name]
    ), said


def test_examples_name_their_programs_and_their_commands() -> None:
    page = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert re.findall(r"^\| `(\S+\.py)`", page, re.M) == [
        "write_and_read.py",
        "follow.py",
        "append_to_a_log.py",
        "take_over.py",
    ]
    assert set(EXAMPLES) == set(re.findall(r"^\| `(\S+\.py)`", page, re.M))


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_runs_as_it_stands(name: str, address: str) -> None:
    text, replaced = ADDRESS.subn(repr(address), SNIPPETS[name])
    if not replaced:
        text += CALLED.format(address=address)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(text, name, "exec", flags=flags, dont_inherit=True)
    program = f"import asyncio; code = compile({text!r}, {name!r}, 'exec', flags={flags})\n"
    if code.co_flags & inspect.CO_COROUTINE:
        program += "asyncio.run(eval(code, {}))"
    else:
        program += "exec(code, {'__name__': '__main__'})"
    ran([sys.executable, "-W", "error", "-c", program], {"PATH": os.environ["PATH"]})
