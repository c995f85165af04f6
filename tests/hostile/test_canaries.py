"""No secret comes out of a client's life or an operator's, and the watch would see one."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.lab import Lab, play
from tests.operator.resources import SPACE
from tests.operator.worlds import World
from tests.support import canaries as watching
from tests.support.canaries import Watch
from tests.support.checkout_root import ROOT
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, EVENTS, OWNED, SECRETS
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.formats import digests, exposition

CANARY = b"canary-9f\xff3b+/71"


def leaked_by_log(form: str) -> None:
    logging.getLogger("zonekeeper.planted").debug("asked with %s", form)


def leaked_by_fact(form: str) -> None:
    logging.getLogger("zonekeeper.planted").info("asked", extra={"planted": {"key": form}})


def leaked_by_trouble(form: str) -> None:
    str(Trouble(f"no {form} here"))


def leaked_by_metrics(form: str) -> None:
    exposition.render([exposition.labelled("planted", "by", {form: 1.0}, "planted")])


def leaked_by_command(form: str) -> None:
    subprocess.run([sys.executable, "-c", "pass", "--password", form], check=True)


@pytest.mark.parametrize(
    "leak", [leaked_by_log, leaked_by_fact, leaked_by_trouble, leaked_by_metrics]
)
@pytest.mark.parametrize("form", sorted(watching.forms(CANARY)))
def test_each_form_is_seen_wherever_it_comes_out(leak, form: str) -> None:  # type: ignore[no-untyped-def] # any of the above
    with watching.watched() as watch:
        Secret(CANARY)
        leak(form)
    # A repr in a line escapes what stands in it once more.
    assert watch.hits() or "\\" in form or not form.isascii()
    assert CANARY.hex() not in "".join(watch.hits())


def test_a_command_line_is_seen() -> None:
    with watching.watched() as watch:
        Secret(CANARY)
        leaked_by_command(CANARY.hex())
    assert any(hit.startswith("command line") for hit in watch.hits())


def test_a_key_is_a_canary_and_what_everybody_knows_is_none() -> None:
    with watching.watched() as watch:
        logging.getLogger("zonekeeper.planted").info(digests.master_key(b"pw").hex())
        logging.getLogger("zonekeeper.planted").info(digests.master_key(b"").hex())
        Secret(b"short")
        logging.getLogger("zonekeeper.planted").info("a short text")
    assert len(watch.hits()) == 1


def test_after_the_watch_all_is_as_before() -> None:
    with watching.watched():
        pass
    assert "__new__" not in vars(Secret)
    assert "__init__" not in vars(Trouble)
    assert Secret(b"x") == b"x"
    assert str(Trouble("x")) == "x"
    assert logging.getLogger("zonekeeper").level != logging.DEBUG


def test_a_client_s_life_with_a_password_tells_nothing(canaries: Watch) -> None:
    password = b"canary-of-a-client-4711"

    async def scenario(lab: Lab) -> None:
        async with lab.client("one") as client, lab.client("two") as other:
            config = ClientConfig(password=password)
            writer = await client.create(password=password, ledger_id=7)
            await writer.append_and_wait(b"one")
            for wrong in (b"canary-that-is-wrong", b""):
                with pytest.raises(errors.Unauthorized):
                    await other.open(7, password=wrong, recover=True)
            with pytest.raises(errors.ClientError):
                await client.create(password=password, ledger_id=7)
            lab.door(writer.ensemble[0]).holding = True
            reader = await other.open(7, password=password, recover=True)
            with pytest.raises(errors.Fenced):
                await writer.append_and_wait(b"two")
            logging.getLogger("zonekeeper.planted").debug(
                "%r %r %r %s", client, reader, await client.metadata(7), config
            )

    play(scenario)
    assert canaries.hits() == []
    canaries.hear("the proof that the watch was there", password.decode())
    assert len(canaries.hits()) == 1
    canaries._said.pop()


async def test_an_operator_s_keys_stand_in_secrets_alone(canaries: Watch) -> None:
    world = World(tls={"mode": "Operator"}, network={"policies": True})
    await world.settle()
    kinds = [kind for kind in (*OWNED, BOOKIE_CLUSTERS, EVENTS) if kind is not SECRETS]
    for kind in dict.fromkeys(kinds):
        for item in await world.kubernetes.list(kind, SPACE):
            canaries.hear(f"{kind.name} {item['metadata']['name']}", json.dumps(item))
    assert canaries._said
    for item in await world.kubernetes.list(SECRETS, SPACE):
        assert "PRIVATE KEY" not in json.dumps(item["metadata"])


PLANTED = """
import logging
from zonekeeper.placement.base.hidden import Secret

def test_it_prints() -> None:
    print(Secret(b"canary-in-a-print").decode())

def test_it_is_silent() -> None:
    assert Secret(b"canary-that-is-silent")
"""


@pytest.mark.processes
@pytest.mark.parametrize(("switch", "failed"), [("1", 1), ("", 0)])
def test_the_switch_watches_over_every_test(switch: str, failed: int, tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(PLANTED)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.support.canaries",
        "-c",
        "/dev/null",
    ]
    environment = {**os.environ, watching.SWITCH: switch, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [*words, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    said = f"{2} passed" if not failed else "1 error"
    assert said in ended.stdout, ended.stdout + ended.stderr
    assert ("a secret came out" in ended.stdout) is bool(failed)
