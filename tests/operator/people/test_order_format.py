"""The text of an order: what is written is read, and what is not whole is refused."""

import json

import pytest

from zonekeeper.operator.people import order_format
from zonekeeper.operator.people.order_format import BadOrderError
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.gate import Person, Token

ANNA = Person(name="anna", reason="a drill")


def order(asked: AskedFor, **parts: object) -> ResourceOrder:
    known: dict[str, object] = {
        "token": "t",
        "asked": asked,
        "uid": "u",
        "person": ANNA,
        "until_ms": 7,
        **({"bookie": BookieId("log-b-0")} if asked.is_of_bookie else {}),
        **({"zone": ZoneName("b")} if asked.is_of_drill else {}),
        **({"for_ms": 60_000} if asked is AskedFor.DRILL else {}),
        **({"incident": Token("d")} if asked is AskedFor.END_DRILL else {}),
    }
    return ResourceOrder(**{**known, **parts})  # type: ignore[arg-type] # checked when it is read


@pytest.mark.parametrize(
    "wanted",
    [
        *map(order, AskedFor),
        order(AskedFor.HOLD, zone=ZoneName("b")),
        order(
            AskedFor.RELEASE,
            zone=ZoneName("b"),
            incident=Token("i"),
            held_by="bert: no",
            is_forced=True,
        ),
    ],
)
def test_what_is_written_is_read(wanted: ResourceOrder) -> None:
    text = order_format.render(wanted)

    assert order_format.parse(text) == wanted
    assert order_format.token_of(text) == wanted.token


WHOLE = json.loads(order_format.render(order(AskedFor.HOLD, zone=ZoneName("b"))))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"do": "format"}, "must be one of enable"),
        ({"alsoEvacuate": True}, "alsoEvacuate: this operator does not know the field"),
        ({"token": " "}, "token: must be a text"),
        ({"token": "x" * 65}, "at most 64"),
        ({"uid": None}, "uid: must be a text"),
        ({"by": 7}, "by: must be a text"),
        ({"reason": "two\nlines"}, "one line"),
        ({"untilMs": "7"}, "untilMs"),
        ({"untilMs": True}, "untilMs"),
        ({"force": "yes"}, "force"),
        ({"zone": ""}, "zone: must be a text"),
        ({"bookie": "log-b-0"}, "hold takes none"),
        ({"incident": "i"}, "hold takes none"),
        ({"do": "drain"}, "drain needs one"),
        ({"do": "drain", "bookie": "log-b-0"}, "zone: drain takes none"),
        ({"do": "enable"}, "zone: enable takes none"),
        ({"forMs": 60_000}, "forMs, secret: hold takes none"),
        ({"secret": "s"}, "forMs, secret: hold takes none"),
        ({"do": "drill"}, "forMs: a zone is away for 5s to 1h"),
        ({"do": "drill", "forMs": 4_999}, "forMs: a zone is away for"),
        ({"do": "drill", "forMs": 3_600_001}, "forMs: a zone is away for"),
        ({"do": "drill", "forMs": True}, "forMs: must be a number"),
        ({"do": "drill", "forMs": 60_000, "incident": "d"}, "endDrill needs the token"),
        ({"do": "drill", "forMs": 60_000, "heldBy": "a: b"}, "heldBy: drill takes none"),
        ({"do": "endDrill"}, "endDrill needs the token"),
        ({"do": "endDrill", "incident": "d", "forMs": 60_000}, "endDrill takes none"),
    ],
)
def test_what_is_not_whole_is_refused_in_words(change: dict[str, object], says: str) -> None:
    with pytest.raises(BadOrderError, match=says):
        order_format.parse(json.dumps(WHOLE | change))


@pytest.mark.parametrize("text", ["", "hold b", "[1]", "7", "{" * 3_000, "[" * 5_000])
def test_what_is_no_object_is_no_order(text: str) -> None:
    with pytest.raises(BadOrderError):
        order_format.parse(text)
    assert order_format.token_of(text) == ""
