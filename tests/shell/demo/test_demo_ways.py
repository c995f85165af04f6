"""The demonstration is over TLS unless plain text is asked for, and says which of them it is."""

from pathlib import Path

import pytest
from rich.console import Console

from tests.shell.local_world import LocalWorld
from zonekeeper.metadata.commands import exits
from zonekeeper.shell.demo import demo
from zonekeeper.shell.demo.demo_screen import LineScreen
from zonekeeper.shell.demo.demo_story import DemoPace
from zonekeeper.shell.local.local_cluster import LocalCluster
from zonekeeper.shell.local.local_folder import LocalError
from zonekeeper.shell.local.local_shape import Asked

SAID = {
    True: "Bookies serve over TLS only, and each caller shows a certificate of this cluster.",
    False: "All connections are plain text.",
}


class UnstartableCluster(LocalCluster):
    """A cluster that notes what is asked for, and does not start."""

    asked: Asked | None = None

    async def up(self, asked: Asked | None = None) -> tuple[()]:
        self.asked = asked
        raise LocalError("it does not start")


@pytest.mark.parametrize("tls", [True, False])
async def test_the_cluster_is_made_as_the_first_words_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, tls: bool
) -> None:
    cluster = UnstartableCluster(tmp_path / "c")
    screen = LineScreen(Console(soft_wrap=True), lambda: 0.0)
    with pytest.raises(LocalError, match="does not start"):
        await demo.run(cluster, screen, DemoPace(), tls=tls)
    assert cluster.asked == {"tls": tls}
    said = capsys.readouterr().out
    assert [text in said for text in SAID.values()] == [one is tls for one in SAID]


@pytest.mark.parametrize(
    ("words", "tls"), [((), True), (("--tls",), True), (("--plaintext",), False)]
)
def test_the_command_takes_the_word(tmp_path: Path, words: tuple[str, ...], *, tls: bool) -> None:
    """Its folder cannot be made, so nothing is started."""
    (tmp_path / "file").touch()
    ended = LocalWorld(tmp_path / "file" / "c").call("demo", *words)
    assert ended.exit_code == exits.REFUSED
    assert SAID[tls] in ended.output
    assert SAID[not tls] not in ended.output
