"""Whatever bytes a parser is shown, it answers with a value that spells them, or a ``FormatError``.

The corpus (``corpus/*.txt``) holds seeds with the answer that they once got: what was accepted, and
one spelling of every fault. From these the mutations start; half of them get a right checksum, so
that the checks behind it are reached. Found something? Its bytes become a section of the corpus.
"""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire import hextext, tampering
from zonekeeper.wire.formats import carriers, errors, frames
from zonekeeper.wire.formats.errors import Fault

#: What parsing may allocate: some times what is there, and what the interpreter needs anyway.
ALLOCATION_TIMES, ALLOCATION_BYTES = 8, 64 << 10


@dataclass(frozen=True, slots=True)
class Parser:
    """One format: how it is read, written again, and given a right checksum."""

    name: str
    respell: Callable[[bytes], bytes]
    resum: Callable[[bytes], bytes]

    def answer(self, data: bytes) -> str:
        """Give ``accepted`` or the name of the fault; any other exception is a failure."""
        try:
            spelled = self.respell(data)
        except errors.FormatError as error:
            return error.fault.name
        assert spelled == data, "accepted, but not what a builder would write"
        return "accepted"


def respell_frame(data: bytes) -> bytes:
    frame = frames.parse(data)
    ids, packets = zip(*frame, strict=True)
    return frames.build(frame.ledger_id, ids, packets, frame.flags).data()


FRAMES = Parser("frames", respell_frame, tampering.frame)
CARRIERS = Parser("carriers", lambda data: carriers.build(carriers.parse(data)), tampering.carrier)
PARSERS = [FRAMES, CARRIERS]
CORPUS = {parser.name: hextext.read(f"corpus/{parser.name}.txt") for parser in PARSERS}
SEEDS = [(parser, name) for parser in PARSERS for name in CORPUS[parser.name]]

every_parser = pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)


@pytest.mark.parametrize(("parser", "name"), SEEDS, ids=lambda part: getattr(part, "name", part))
def test_a_seed_gets_the_answer_that_it_once_got(parser: Parser, name: str) -> None:
    answer, _, _ = name.partition(":")

    assert parser.answer(CORPUS[parser.name][name]) == answer


def test_the_corpus_has_a_seed_for_every_fault() -> None:
    answers = {name.partition(":")[0] for _, name in SEEDS}

    assert answers == {fault.name for fault in Fault} | {"accepted"}


def mutated(parser: Parser, chance: Random) -> bytes:
    """Give a seed with a few changes, every other time with the checksum made right."""
    data = bytearray(chance.choice(list(CORPUS[parser.name].values())))
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
                data[at : at + 4] = tampering.u32(chance.choice((0, 1, 1 << 16, (1 << 32) - 1)))
            case _:
                other = chance.choice(list(CORPUS[parser.name].values()))
                data[at:] = other[at:]
    if len(data) > tampering.CARRIER_CONTROL and chance.random() < 0.5:
        return parser.resum(bytes(data))
    return bytes(data)


def fuzz(parser: Parser, seed: int, rounds: int) -> set[str]:
    """Try so many mutations, and give the answers that they got."""
    chance = Random(seed)
    return {parser.answer(mutated(parser, chance)) for _ in range(rounds)}


@every_parser
def test_mutations_are_refused_or_spelled_the_same_way(parser: Parser) -> None:
    answers = fuzz(parser, seed=1, rounds=3000)

    assert len(answers) > 8


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 104))
@every_parser
def test_many_mutations_are_refused_or_spelled_the_same_way(parser: Parser, seed: int) -> None:
    fuzz(parser, seed, rounds=200_000)


@every_parser
def test_mutations_allocate_no_more_than_a_few_times_what_is_there(parser: Parser) -> None:
    chance = Random(2)
    tracemalloc.start()
    try:
        for _ in range(500):
            data = mutated(parser, chance)
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            parser.answer(data)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < ALLOCATION_TIMES * len(data) + ALLOCATION_BYTES
    finally:
        tracemalloc.stop()


@every_parser
@given(data=st.binary(max_size=300))
@settings(deadline=None)
def test_arbitrary_bytes_are_refused(parser: Parser, data: bytes) -> None:
    assert parser.answer(data) != "accepted"


@every_parser
@given(rest=st.binary(max_size=300))
@settings(deadline=None)
def test_arbitrary_bytes_behind_a_good_start_and_checksum_are_refused_or_respelled(
    parser: Parser, rest: bytes
) -> None:
    start = CORPUS[parser.name]["accepted: the simplest"][:12]

    parser.answer(parser.resum(start + rest + bytes(tampering.CARRIER_CONTROL)))
