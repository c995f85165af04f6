"""What is told as options is read exactly, and what is wrong is named, all of it at once."""

import pickle

import pytest

from zonekeeper.pipeline.reading import options
from zonekeeper.pipeline.reading.options import ReadOptions
from zonekeeper.placement.base.fields import InvalidFieldsError
from zonekeeper.placement.base.ids import LedgerId

URI = "sqlite:///srv/meta.db"


def problems(**given: str) -> list[str]:
    with pytest.raises(InvalidFieldsError) as refused:
        options.parse(given)
    return str(refused.value).splitlines()


def test_a_ledger_of_a_cluster_is_enough() -> None:
    assert options.parse({"metadata": URI, "ledger": "7"}) == ReadOptions(
        metadata=URI, ledger=LedgerId(7)
    )


def test_all_can_be_told_in_any_case() -> None:
    read = options.parse(
        {
            "METADATA": URI,
            "Ledger": "9223372036854775807",
            "first": "0",
            "last": "007",
            "password": "sésame",
            "partitions": "10000",
            "rowsperbatch": "1",
        }
    )

    assert read == ReadOptions(
        metadata=URI,
        ledger=LedgerId((1 << 63) - 1),
        last=7,
        password="sésame".encode(),
        partitions=10_000,
        rows_per_batch=1,
    )
    assert pickle.loads(pickle.dumps(read)) == read
    assert "sésame" not in repr(read)


def test_everything_that_is_missing_is_named_with_an_example() -> None:
    assert problems() == [
        'metadata: not given: is required; write .option("metadata", "zk://host:2181/ledgers")',
        'ledger: not given: is required; write .option("ledger", 7)',
        "a table in SQL: no option at all: keeps its OPTIONS only if it is created without "
        "columns; write CREATE TABLE t USING zonekeeper OPTIONS (...), or name them in the query: "
        "SELECT ... FROM t WITH (metadata = '...', ledger = 7)",
    ]
    assert len(problems(metadata=URI)) == 1


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("ledger", 0, (1 << 63) - 1),
        ("first", 0, (1 << 63) - 1),
        ("last", 0, (1 << 63) - 1),
        ("partitions", 1, 10_000),
        ("rowsPerBatch", 1, 100_000),
    ],
)
@pytest.mark.parametrize("text", ["-1", "", "1.5", "1e3", " 1", "٣", "true", "9" * 5_000])
def test_what_is_no_number_in_the_range_is_refused(
    name: str, least: int, most: int, text: str
) -> None:
    given = {"metadata": URI, "ledger": "7", name: text}

    (said,) = problems(**given)

    assert said.startswith(f"{name}: ")
    assert f"must be a whole number from {least} to {most}" in said
    for good in (least, most):
        options.parse({**given, name: str(good)})
    for bad in (least - 1, most + 1):
        problems(**{**given, name: str(bad)})


def test_a_range_does_not_go_backwards() -> None:
    assert problems(metadata=URI, ledger="7", first="5", last="4") == [
        "last: 4: must not be below first, which is 5; give the larger one as last"
    ]
    assert options.parse({"metadata": URI, "ledger": "7", "first": "5", "last": "5"}).last == 5


def test_an_address_that_is_none_is_refused_without_showing_what_may_be_secret() -> None:
    (said,) = problems(metadata="zk://user:secret@host/ledgers", ledger="7")

    assert said.startswith("metadata: cannot be used: a store address holds no user or password")
    assert "secret" not in said


def test_an_option_that_there_is_not_is_refused_with_the_nearest_that_there_is() -> None:
    assert problems(metadata=URI, ledgers="7", path="/x") == [
        "ledgers: unknown: is no option of zonekeeper; did you mean ledger?",
        "path: unknown: is no option of zonekeeper; there are metadata, ledger, first, last, "
        "password, partitions, rowsPerBatch",
        'ledger: not given: is required; write .option("ledger", 7)',
    ]
