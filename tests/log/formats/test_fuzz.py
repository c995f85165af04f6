"""Whatever bytes a parser is shown, it gives a value that spells them, or says what is wrong.

Mutations start from the golden bytes. Half of them get a right checksum, so that the checks behind
it are reached. The property tests of the formats have the spelling of each fault.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.batching import COUNT, PACKERS, resummed
from tests.log.formats.test_golden import BATCHES, MANIFESTS, OPENINGS
from zonekeeper.log.formats import batches, manifests, openings
from zonekeeper.log.formats.batches import Packing
from zonekeeper.metadata.formats.malformed import MalformedError, UnsupportedError


@dataclass(frozen=True, slots=True)
class Parser:
    name: str
    respell: Callable[[bytes], bytes]
    seeds: tuple[bytes, ...]

    def answer(self, data: bytes) -> str:
        """Give how reading ends; any other exception is a failure."""
        try:
            spelled = self.respell(data)
        except MalformedError as error:
            return error.flaw.name
        except UnsupportedError:
            return "newer"
        assert spelled == data, "accepted, but not what a builder would write"
        return "accepted"


def respell_batch(data: bytes) -> bytes:
    batch = batches.parse(data, PACKERS)
    many = batch.messages()
    spelled = batches.build(many, place=batch.place, wall_ms=batch.wall_ms)
    if batch.packing is Packing.NONE:
        return spelled
    assert batches.parse(spelled, PACKERS).messages() == many
    return data


BATCH = Parser("batch", respell_batch, tuple(BATCHES.values()))
OPENING = Parser(
    "opening", lambda data: openings.build(openings.parse(data)), tuple(OPENINGS.values())
)
MANIFEST = Parser(
    "manifest", lambda data: manifests.build(manifests.parse(data)), tuple(MANIFESTS.values())
)
every_parser = pytest.mark.parametrize(
    "parser", [BATCH, OPENING, MANIFEST], ids=lambda one: one.name
)


def mutated(parser: Parser, chance: Random) -> bytes:
    data = bytearray(chance.choice(parser.seeds))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1 if at < len(data):
                data[at] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
            case 2:
                del data[at : at + chance.randint(1, 9)]
            case 3:
                data[at:at] = chance.randbytes(chance.randint(1, 9))
            case 4:
                data[at : at + 4] = chance.choice((0, 1, 1 << 16, (1 << 32) - 1)).to_bytes(4)
            case _:
                data[at:] = chance.choice(parser.seeds)[at:]
    if len(data) > COUNT and chance.random() < 0.5:
        return resummed(bytes(data))
    return bytes(data)


def fuzz(parser: Parser, seed: int, rounds: int) -> set[str]:
    chance = Random(seed)
    return {parser.answer(mutated(parser, chance)) for _ in range(rounds)}


@every_parser
def test_mutations_are_refused_or_spelled_the_same_way(parser: Parser) -> None:
    answers = fuzz(parser, seed=1, rounds=3_000)

    assert {"accepted", "newer", "TRUNCATED", "BAD_CHECKSUM", "OUT_OF_RANGE"} <= answers


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 104))
@every_parser
def test_many_mutations_are_refused_or_spelled_the_same_way(parser: Parser, seed: int) -> None:
    assert "accepted" in fuzz(parser, seed, rounds=100_000)


@every_parser
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(parser: Parser, data: bytes) -> None:
    assert parser.answer(data) != "accepted"


@every_parser
@given(rest=st.binary(max_size=300))
def test_arbitrary_bytes_behind_a_good_start_are_refused_or_respelled(
    parser: Parser, rest: bytes
) -> None:
    assert parser.answer(resummed(parser.seeds[0][:COUNT] + rest))
