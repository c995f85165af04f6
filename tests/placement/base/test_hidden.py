"""A secret computes as bytes do, and shows nothing that was not asked for."""

import copy
import dataclasses
import hashlib
import hmac
import json
import logging
import pickle
import traceback
from dataclasses import dataclass

import pytest

from zonekeeper.placement.base.hidden import SHOWN, Secret

WORD = b"open sesame"
HIDDEN = Secret(WORD)


@dataclass(frozen=True)
class Holder:
    """Something that forgot to leave its secret out of its text."""

    password: bytes = HIDDEN


class Kind(Secret):
    """A kind of secret, such as the key of a ledger."""


def test_it_is_bytes_in_every_computation() -> None:
    assert HIDDEN == WORD
    assert hash(HIDDEN) == hash(WORD)
    assert {WORD: 1}[HIDDEN] == 1
    assert hmac.compare_digest(HIDDEN, WORD)
    assert hashlib.sha1(b"ledger" + HIDDEN).digest() == hashlib.sha1(b"ledger" + WORD).digest()
    assert hmac.digest(HIDDEN, b"x", "sha1") == hmac.digest(WORD, b"x", "sha1")
    assert b"".join([HIDDEN]) == WORD
    assert not Secret()


@pytest.mark.parametrize("secret", [HIDDEN, Kind(WORD), Secret(), Secret(b"a longer one")])
def test_no_text_shows_it_or_how_long_it_is(secret: Secret) -> None:
    assert {repr(secret), str(secret), f"{secret}", f"{secret!r}", f"{secret!s}"} == {SHOWN}
    with pytest.raises(TypeError):
        f"{secret:>20}"


def test_what_holds_it_does_not_show_it() -> None:
    assert repr(Holder()) == f"Holder(password={SHOWN})"
    assert f"{[HIDDEN]} { ({'key': HIDDEN}) } {(HIDDEN,)}".count(SHOWN) == 3
    assert SHOWN in str(ValueError(HIDDEN))


def test_no_line_of_a_log_and_no_traceback_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("zonekeeper.planted").debug("asked with %s, %r", HIDDEN, Holder())
    assert "sesame" not in caplog.text
    with pytest.raises(KeyError) as told:
        raise KeyError(HIDDEN)
    shown = traceback.TracebackException.from_exception(told.value, capture_locals=True)
    assert "sesame" not in "".join(shown.format_exception_only())


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("thing", [HIDDEN, Kind(WORD), Holder(), [HIDDEN], {"key": HIDDEN}])
def test_neither_it_nor_what_holds_it_can_be_pickled(thing: object, protocol: int) -> None:
    with pytest.raises(TypeError, match="a secret is not pickled"):
        pickle.dumps(thing, protocol)


@pytest.mark.parametrize("nothing", [Secret(), Kind(), Holder(password=Secret())])
def test_what_holds_no_password_travels(nothing: object) -> None:
    copied = pickle.loads(pickle.dumps(nothing))
    assert copied == nothing
    assert type(copied) is type(nothing)
    assert repr(copied) == repr(nothing)


def test_json_takes_none() -> None:
    for thing in (HIDDEN, {"password": HIDDEN}, dataclasses.asdict(Holder())):
        with pytest.raises(TypeError):
            json.dumps(thing)


def test_a_copy_is_still_a_secret() -> None:
    for copied in (copy.copy(HIDDEN), copy.deepcopy(HIDDEN), dataclasses.asdict(Holder())):
        assert SHOWN in repr(copied)
        assert "sesame" not in repr(copied)
    assert copy.deepcopy(Holder()) == Holder()
    assert dataclasses.replace(Holder()).password is HIDDEN
    assert type(copy.copy(Kind(WORD))) is Kind
