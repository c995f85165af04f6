"""What is not understood in a transcript is an error that says where; so is what does not hold."""

from pathlib import Path

import pytest

from tests.zone_scenarios import players, transcripts
from tests.zone_scenarios.settings import TranscriptError
from tests.zone_scenarios.steps import Declare, Lose, Published, Stands
from tests.zone_scenarios.transcripts import Side
from zonekeeper.placement.base.ids import BookieId

GOOD = """\
# for people
S83  a zone vanishes
bookies: 3 a zone
policy: repair.resume manual, zoneWatch.lowMark 0.4
0s      lose a-0..1 b-*; declare c.ud-2 for 1h

        a is down, held
1m30s   watch: published: a-0 at 5m, b-0
        machine: noted of a: one; and the same one
"""


def test_a_transcript_is_read() -> None:
    (read,) = transcripts.read(GOOD, "some.txt")

    assert (read.number, read.title, read.place) == ("S83", "a zone vanishes", "some.txt:2")
    assert read.setting.per_zone == 3
    assert read.setting.policy.zone_watch.low_mark == 0.4
    assert [line.at_ms for line in read.lines] == [0, 0, 0, 90_000, 90_000]
    lost, declared, stands, published, _ = (line.step for line in read.lines)
    assert isinstance(lost, Lose)
    assert lost.bookies == ("a-0", "a-1", "b-0", "b-1", "b-2")
    assert isinstance(declared, Declare)
    assert isinstance(stands, Stands)
    assert isinstance(published, Published)
    assert published.at_ms == {BookieId("a-0"): 300_000, BookieId("b-0"): None}
    assert len(list(read.on(Side.MACHINE))) == len(list(read.on(Side.WATCH))) == 4
    assert read.lines[-1].text == "noted of a: one; and the same one"


@pytest.mark.parametrize(
    ("lines", "place", "says"),
    [
        ("0s  lose a-0", 1, "begins with its title"),
        ("S83  t\n0s  lose a-0", 1, "nothing is expected"),
        ("S83  t\nbookies: 3", 2, "how many"),
        ("S83  t\nbookies: 3 a zone\nbookies: 3 a zone", 3, "given twice"),
        ("S83  t\ncolour: red", 2, "no setting"),
        ("S83  t\nbegins: at noon", 2, "how does it begin"),
        ("S83  t\npolicy: repair.resume later", 2, "repair.resume"),
        ("S83  t\npolicy: repair.colour red", 2, "colour"),
        ("S83  t\npolicy: resume manual", 2, "no rule"),
        ("S83  t\npolicy: repair.after 1h, repair.after 2h", 2, "given twice"),
        ("S83  t\nrepairs take: long", 2, "no time"),
        ("S83  t\n        a is up", 2, "needs a time"),
        ("S83  t\n5s  a is up\n4s  a is up", 3, "time of a line before"),
        ("S83  t\n5s  a is up\n5s  a is up", 3, "time of a line before"),
        ("S83  t\n5  a is up", 2, "no time"),
        ("S83  t\n1s2m  a is up", 2, "larger unit"),
        ("S83  t\n5s", 2, "no clause"),
        ("S83  t\n0s  a is up\nbookies: 3 a zone", 3, "no time"),
        ("S83  t\n0s  lose a-77", 2, "no bookie a-77"),
        ("S83  t\n0s  lose a-0 a-0", 2, "each bookie once"),
        ("S83  t\n0s  lose d-*", 2, "no bookie is"),
        ("S83  t\n0s  lose a-4..2", 2, "goes up"),
        ("S83  t\n0s  add a-0", 2, "there already"),
        ("S83  t\n0s  decommission a-0; lose a-0", 2, "no bookie a-0"),
        ("S83  t\n0s  d is up", 2, "zone 'd'"),
        ("S83  t\n0s  a is frozen", 2, "no state of a"),
        ("S83  t\n0s  a is held, down", 2, "no state of a"),
        ("S83  t\n0s  a passed: up > down", 2, "no state of a"),
        ("S83  t\n0s  cluster is up", 2, "no state of cluster"),
        ("S83  t\n0s  a explodes", 2, "nobody knows"),
        ("S83  t\n0s  lose a-0;a is up", 2, "no bookie"),
        ("S83  t\n0s  alerts of a: zoneGone", 2, "no alert"),
        ("S83  t\n0s  raised zoneDown: sometimes", 2, "how often"),
        ("S83  t\n0s  reminded zoneDown: once", 2, "nothing more belongs"),
        ("S83  t\n0s  ended a: once", 2, "no unit"),
        ("S83  t\n0s  declare a.ud-9 for 1h", 2, "no unit"),
        ("S83  t\n0s  a-0 is held by nobody", 2, "nothing holds"),
        ("S83  t\n0s  counted in a: lost 1", 2, "no count"),
        ("S83  t\n0s  incidents of a: some", 2, "no number"),
        ("S83  t\n0s  published: a-0 at 5m, a-0", 2, "each bookie once"),
        ("S83  t\n0s  watch: lose a-0", 2, "both sides"),
        ("S83  t\n0s  elsewhere: a is up", 2, "nobody knows"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(
    lines: str, place: int, says: str
) -> None:
    with pytest.raises(TranscriptError) as refused:
        transcripts.read(lines, "some.txt")

    assert str(refused.value).startswith(f"some.txt:{place}: ")
    assert says in str(refused.value)


def test_no_two_transcripts_have_the_same_title(tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("S83  t\n0s  a is up\n")

    with pytest.raises(TranscriptError, match=r"two\.txt:1: the title of one\.txt:1"):
        transcripts.all_of(tmp_path)


#: Of each kind of expectation, one that does not hold after `lose a-0 a-1`, at ten minutes.
WRONG = [
    "a is up",
    "a is degraded, held",
    "cluster is frozen",
    "a passed: up open",
    "published: none",
    "published: a-0..1 at 4m",
    "published: a-0..1 at 6m",
    "a-0 is held by zoneHeld",
    "alerts of a: zoneDown",
    "counted in a: total 9",
    "hold-up of a: 5m",
    "held time of a: 9m",
    "incidents of a: 1",
    "replication is off",
    "in maintenance: a.ud-0",
    "raised zoneDegraded: never",
    "raised zoneDegraded: 2 times",
    "raised zoneDegraded: at 5m",
    "cleared zoneDegraded: once",
    "reminded: once",
    "switched off: once",
    "ended a.ud-0: once",
    "told: nothing",
    "noted of a: up → down",
    "noted of b: up → down",
    "noted of a: no more",
]


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("clause", WRONG)
def test_what_does_not_hold_is_said_with_its_place(clause: str, side: Side) -> None:
    text = (
        f"S83  t\nrepairs take: for ever\n0s  lose a-0..1\n10m  a is degraded, open\n  {clause}\n"
    )
    (transcript,) = transcripts.read(text, "some.txt")

    with pytest.raises(AssertionError) as failed:
        players.play(transcript, side)

    assert str(failed.value).startswith(f"some.txt:5, on the {'running ' * (side is Side.WATCH)}")
    assert clause in str(failed.value)
