"""No bytes crash a reader, none is accepted in silence, and what is read is written back.

The corpus has a file for each reader: a line for each sample, with how reading it ends.
"""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metadata.conftest import HERE
from tests.metadata.parsers import PARSERS, outcome
from tests.support import allocations
from zonekeeper.metadata.formats.malformed import VALUE_SIZE_BYTES_MAX


def corpus(name: str) -> Iterator[tuple[str, bytes]]:
    """Give the samples of a reader, with how reading each ends."""
    for line in (HERE / "corpus" / f"{name}.txt").read_text().splitlines():
        if not line.startswith("#"):
            ending, _, digits = line.partition(" ")
            yield ending, bytes.fromhex(digits)


SAMPLES = [(name, *sample) for name in PARSERS for sample in corpus(name)]


@pytest.mark.parametrize(("name", "ending", "raw"), SAMPLES)
def test_each_sample_of_the_corpus_ends_as_it_always_did(
    name: str, ending: str, raw: bytes
) -> None:
    assert outcome(PARSERS[name], raw) == ending


@st.composite
def mutated(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """A sample with pieces cut out, doubled, replaced and put in."""
    raw = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(raw)))
        stop = draw(st.integers(start, min(len(raw), start + 12)))
        piece = draw(
            st.binary(max_size=6)
            | st.just(bytes(raw[start:stop]) * 2)
            | st.sampled_from([b"\x80" * 10, b"\xff\xff\xff\xff\x7f", b"\\", b'"', b"{", b"\n"])
        )
        raw[start:stop] = piece
    return bytes(raw)


def attack(name: str, examples: int) -> None:
    samples = [raw for _, raw in corpus(name)]

    @settings(max_examples=examples, deadline=None, database=None)
    @given(mutated(samples) | st.binary(max_size=80))
    def survives(raw: bytes) -> None:
        outcome(PARSERS[name], raw)

    survives()


@pytest.mark.parametrize("name", PARSERS)
def test_a_few_mutations_do_no_harm(name: str) -> None:
    attack(name, 60)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", PARSERS)
def test_many_mutations_do_no_harm(name: str) -> None:
    attack(name, 1_000)


@pytest.mark.parametrize("name", PARSERS)
def test_a_length_that_lies_allocates_nothing(name: str) -> None:
    """Announced sizes are checked against what is there: memory stays near the input's size."""
    huge = b"\xff\xff\xff\xff\x07"
    lies = [raw[:at] + huge + raw[at:] for _, raw in corpus(name) for at in range(0, len(raw), 7)]
    with allocations.peak_below(4 * VALUE_SIZE_BYTES_MAX):
        for raw in lies:
            outcome(PARSERS[name], raw)
