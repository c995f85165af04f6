"""The options of jobs: read once, and all faults named at once in the words of their place."""

from fractions import Fraction

import pytest

from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.pipeline.base.connection_options import BadSecretFileError
from zonekeeper.pipeline.planning import job_options
from zonekeeper.pipeline.planning.job_options import EVERY_JOB, OF_READING, PRICES
from zonekeeper.placement.base.fields import InvalidFieldsError

METADATA = {"metadata": "zk://host:2181/ledgers"}


def refused(given: dict[str, str]) -> str:
    with pytest.raises(InvalidFieldsError) as error:
        job_options.parse(given, EVERY_JOB + OF_READING, job_options.of_python)
    return str(error.value)


def test_what_is_left_out_is_everything_at_full_speed() -> None:
    found = job_options.parse(METADATA, EVERY_JOB)
    assert found.wanted == (0, LEDGER_ID_MAX)
    assert (found.bytes_per_second, found.at_once, found.unwatched) == (0, 1, False)
    assert found.config.tls is None


def test_each_option_is_read() -> None:
    given = {
        **METADATA,
        "ledgers": "7-900",
        "ledgers-per-task": "12",
        "bytes-per-second": "10MiB",
        "at-once": "4",
        "unwatched": "yes",
        "tls-authority": "/a",
        "tls-certificate": "/c",
        "tls-key": "/k",
    }
    found = job_options.parse(given, EVERY_JOB + OF_READING)
    assert (found.wanted, found.ledgers_per_task) == ((7, 900), 12)
    assert (found.bytes_per_second, found.at_once, found.unwatched) == (10 << 20, 4, True)
    assert found.tls is not None
    assert str(found.tls.key) == "/k"
    with pytest.raises(BadSecretFileError, match="/a, the TLS file of the authority, cannot"):
        _ = found.config
    assert job_options.parse({**METADATA, "ledgers": "7"}, EVERY_JOB).wanted == (7, 7)
    unlimited = job_options.parse({**METADATA, "bytes-per-second": "0"}, OF_READING + EVERY_JOB)
    assert unlimited.bytes_per_second == 0


def test_all_faults_are_named_at_once_as_their_place_spells_them() -> None:
    told = refused(
        {
            "metadat": "x",
            "ledgers": "9-7",
            "bytes-per-second": "10",
            "at-once": "0",
            "unwatched": "perhaps",
            "tls-key": "/k",
        }
    )
    for part in (
        "metadat: unknown: is no option of this job; did you mean metadata?",
        "metadata: not given",
        'ledgers: "9-7"',
        'bytes_per_second: "10"',
        'at_once: "0"',
        'unwatched: "perhaps"',
        "tls_authority: not given",
    ):
        assert part in told
    with pytest.raises(InvalidFieldsError, match="--ledgers: "):
        job_options.parse({**METADATA, "ledgers": "x"}, EVERY_JOB)


def test_a_price_is_given_with_its_day_and_its_source_or_not_at_all() -> None:
    given = {
        **METADATA,
        "price-per-gb": "0.02",
        "currency": "EUR",
        "price-as-of": "2026-11-27",
        "price-source": "the list",
    }
    prices = job_options.parse(given, EVERY_JOB + PRICES).prices
    assert prices is not None
    assert prices.money(3 * 10**9) == Fraction("0.06")
    for name in ("price-per-gb", "currency", "price-as-of", "price-source"):
        lacking = {key: text for key, text in given.items() if key != name}
        with pytest.raises(InvalidFieldsError, match=f"--{name}: not given"):
            job_options.parse(lacking, EVERY_JOB + PRICES)
    for name, text in (
        ("price-per-gb", "-1"),
        ("price-per-gb", "1e9"),
        ("price-as-of", "today"),
        ("price-as-of", "2026-13-01"),
    ):
        with pytest.raises(InvalidFieldsError, match=f'--{name}: "{text}"'):
            job_options.parse({**given, name: text}, EVERY_JOB + PRICES)


@pytest.mark.parametrize("text", ["", "-", "7-", "-7", "1-2-3", "٣", "9" * 20, str(1 << 63)])
def test_what_is_no_range_of_ids_is_refused(text: str) -> None:
    assert "ledgers: " in refused({**METADATA, "ledgers": text})


def test_an_option_of_another_job_is_refused() -> None:
    with pytest.raises(InvalidFieldsError, match="--at-once: unknown"):
        job_options.parse({**METADATA, "at-once": "4"}, EVERY_JOB)


def test_an_address_that_is_none_is_refused() -> None:
    assert "metadata: cannot be used" in refused({"metadata": "zk//x"})
