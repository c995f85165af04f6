"""``zonekeeper placement explain``, through click and as a real process."""

import json
import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.support.checkout_root import ROOT
from zonekeeper.metadata.commands import yaml_files
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.promises import outages
from zonekeeper.shell.explaining import cluster_file, explanation
from zonekeeper.shell.main import main

EXAMPLE = ROOT / "docs" / "examples" / "cluster.yaml"

SMALL = """
policy:
  placement: {zones: [a, b, c]}
bookies: {a: 3, b: 3, c: 3}
"""


def explain(text: str, *options: str, columns: int = 80) -> Result:
    runner = CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    return runner.invoke(main, ["placement", "explain", "-", *options], input=text)


def report(text: str, *options: str) -> dict[str, object]:
    found = json.loads(explain(text, "--output", "json", *options).stdout)
    assert isinstance(found, dict)
    return found


def words(text: str) -> str:
    """The text without its line breaks and columns."""
    return " ".join(text.split())


def lines_with(text: str, *parts: str) -> list[str]:
    return [line for line in text.splitlines() if all(part in line for part in parts)]


# ── what it says ──


def test_the_example_survives_a_zone_and_a_bookie_more() -> None:
    found = explain(EXAMPLE.read_text())

    assert found.exit_code == 0
    first, *_ = lines_with(found.stdout, "a zone and a bookie")
    assert words(first) == "a zone and a bookie yes 1 >= 1 yes 3 >= 3 no 3 < 4 SOFT SOFT"
    assert "6/6/4 (ensemble/write/ack), acks in 2 zones, strict placement" in found.stdout
    assert (
        "- acks, a zone and a bookie: with zone a and a bookie of zone c lost, 3 of 6 are left, "
        "4 are needed" in words(found.stdout)
    )


@pytest.mark.parametrize(
    "spread", ["a: 60, b: 60, c: 60", "a: 60, b: 1, c: 1", "a: 60, b: 30, c: 2"]
)
def test_among_very_many_bookies_losses_do_what_they_do_among_all_of_them(spread: str) -> None:
    zones = ", ".join(part[0] for part in spread.split(", "))
    cluster = cluster_file.read(
        yaml.safe_load(f"policy: {{placement: {{zones: [{zones}]}}}}\nbookies: {{{spread}}}")
    )
    found = explanation.explain(cluster).example
    assert found is not None
    every = outages.of_ensemble(
        cluster.policy.quorums,
        cluster.policy.placement,
        cluster.topology,
        found.choice.ensemble,
        random.Random(0),
    )
    assert [(one.changed.level, one.new.level) for one in found.rebuilding] == [
        (one.changed.level, one.new.level) for one in every
    ]


def test_shares_and_prices_are_taken_as_they_are_written() -> None:
    cluster = cluster_file.read(yaml_files.load(EXAMPLE))

    assert cluster.prices
    assert cluster.prices.per_gb == Fraction(1, 50)
    assert cluster.storage
    assert cluster.storage.min_free == Fraction(1, 10)


def test_the_bill_names_its_price_its_day_and_its_source() -> None:
    text = words(explain(EXAMPLE.read_text()).stdout)

    assert "0.02 USD a GB, as of 2026-01-31: an example, not a quotation" in text
    # 20 TiB written, four of six copies elsewhere, 0.02 for each 10^9 bytes.
    assert f"writing 80 TiB {80 * 2**40 / 10**9 * 0.02:,.2f}" in text
    assert "fits: evenly into zones b, c" in text


def test_without_prices_there_is_no_money() -> None:
    text = words(explain(SMALL + "traffic: {written: 1TiB}").stdout)

    assert "no prices given" in text
    assert "writing 2 TiB" in text
    assert "USD" not in text


def test_clients_of_one_zone_pay_for_the_copies_elsewhere() -> None:
    striped = SMALL + "traffic: {written: 1TiB, clientZone: b}"

    assert "written 2.00" in words(explain(striped).stdout)


@pytest.mark.parametrize("columns", [80, 60])
def test_it_is_readable_without_colour_and_in_few_columns(columns: int) -> None:
    found = explain(EXAMPLE.read_text(), "--show-policy", columns=columns)

    assert "\x1b" not in found.stdout
    assert max(map(len, found.stdout.splitlines())) <= columns


def test_the_policy_in_effect_can_be_used_as_a_policy() -> None:
    found = explain(SMALL, "--show-policy")

    shown = yaml.safe_load(found.stdout.partition("The policy in effect")[2])
    assert rules_data.from_rules(shown) == rules_data.from_rules(yaml.safe_load(SMALL)["policy"])


def test_ack_zones_change_the_answer() -> None:
    def soft_reads(ack_zones: int) -> str:
        found = report(
            SMALL.replace("policy:", f"policy:\n  quorums: {{ackZones: {ack_zones}}}", 1)
        )
        least = found["least"]
        assert isinstance(least, dict)
        holds = least["survives"]["a zone"]["reads"]["holds"]
        assert isinstance(holds, str)
        return holds

    assert (soft_reads(1), soft_reads(2)) == ("no", "yes")


def test_json_carries_the_whole_report() -> None:
    found = report(EXAMPLE.read_text(), "--show-policy")

    assert found["usable"] is True
    assert set(found) == {
        *("usable", "refusals", "warnings", "impossible", "ensemble", "least", "crossings"),
        *("bill", "prices", "headroom", "policy", "neverGated"),
    }
    ensemble = found["ensemble"]
    assert isinstance(ensemble, dict)
    assert ensemble["level"] == "STRICT"
    assert len(ensemble["members"]) == 6
    assert ensemble["survives"]["a zone"]["changed"]["level"] == "SOFT"


def test_json_without_the_optional_parts_has_none_of_them() -> None:
    assert not {"bill", "prices", "headroom", "policy"} & set(report(SMALL))


# ── what is illegal, and what cannot be built ──

ILLEGAL = SMALL.replace("policy:", "policy:\n  quorums: {ensemble: 5}", 1)


def test_an_illegal_configuration_is_refused_with_reason_and_example() -> None:
    found = explain(ILLEGAL)

    assert found.exit_code == 1
    assert "NOT USABLE" in found.stdout
    text = words(found.stdout)
    assert "quorums.ensemble: 5: must be a multiple of quorums.write (3)" in text
    assert "[ensemble-not-multiple-of-write]" in text
    assert "For example: " in text
    assert "What a ledger made now survives" not in text


def test_an_illegal_configuration_is_refused_in_json_too() -> None:
    found = explain(ILLEGAL, "-o", "json")

    assert found.exit_code == 1
    (refusal,) = json.loads(found.stdout)["refusals"]
    assert refusal["code"] == "ensemble-not-multiple-of-write"
    assert refusal["reason"]
    assert refusal["example"]


def test_placement_that_is_not_strict_builds_it_and_says_what_is_lost() -> None:
    relaxed = ILLEGAL.replace("[a, b, c]", "[a, b, c], strict: false")
    found = explain(relaxed.replace("ensemble: 5", "ensemble: 5, ackZones: 1"))

    assert found.exit_code == 0
    assert "Warnings" in found.stdout
    assert "What a ledger made now survives" in found.stdout


def test_too_few_bookies_are_told_with_numbers() -> None:
    found = explain(SMALL.replace("b: 3, c: 3", "b: 1, c: 0").replace("a: 3", "a: 1"))

    assert found.exit_code == 1
    assert "No ledger can be created" in found.stdout
    assert "3 wanted for 3/3/2, 2 can be had" in words(found.stdout)


def test_upgrade_domains_may_be_counted_one_by_one() -> None:
    crowded = SMALL.replace("a: 3", "a: {ud-0: 2, ud-2: 1}").replace("b: 3", "b: {ud-1: 1}")
    found = report(crowded)

    ensemble = found["ensemble"]
    assert isinstance(ensemble, dict)
    places = {member["location"] for member in ensemble["members"]}
    assert "/b/ud-1" in places
    assert not places & {"/a/ud-1", "/b/ud-0", "/b/ud-2"}


# ── what is wrong with the input ──


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SMALL.replace("a: 3", "a: -3"),
            "bookies.a: -3: must be a whole number from 0 to 10000; write for example 0",
        ),
        (
            SMALL.replace("c: 3", "d: 3"),
            "bookies.c: missing: is required; say how many bookies stand there, 0 if none",
        ),
        (SMALL.replace("c: 3", "d: 3"), "bookies.d: 3: unknown field; known here: a, b, c"),
        (
            SMALL.replace("a: 3", "a: {ud-3: 1}"),
            "bookies.a.ud-3: 1: unknown field; did you mean ud-2?",
        ),
        (SMALL + "stoarge: {}", "stoarge: {}: unknown field; did you mean storage?"),
        (
            SMALL + "storage: {zones: {a: {capacity: 4TB}}}",
            'storage.zones.a.capacity: "4TB": must be a size',
        ),
        (SMALL + "storage: {minFree: 1}", "storage.minFree: 1: must be a number, at least 0"),
        (
            SMALL + "traffic: {clientZone: d}",
            'traffic.clientZone: "d": must be one of a, b, c; or leave it out',
        ),
        (SMALL + "traffic: {hedged: 2}", "traffic.hedged: 2: must be a number, at least 0"),
        (SMALL + "prices: {perGB: 0.1}", "prices.source: missing: is required; say where"),
        (
            SMALL + "prices: {asOf: 2026-02-30}",
            'prices.asOf: "2026-02-30": must be a day: YYYY-MM-DD; write for example 2026-01-31',
        ),
        (SMALL + "prices: {currency: usd}", 'prices.currency: "usd": must be three capital'),
        ("bookies: {a: 3}", "policy.placement.zones: missing: is required"),
        ("[]", "the file: []: must be a mapping of fields"),
        ("", "the file: null: must be a mapping of fields"),
    ],
)
def test_a_wrong_value_is_named_with_path_value_rule_and_fix(text: str, message: str) -> None:
    found = explain(text)

    assert found.exit_code == 2
    assert message in found.stderr
    assert not found.stdout


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = explain(
        "policy: {placement: {zones: [a, no]}, reads: {pendingLimit: x}}\n"
        "bookies: {a: many}\nprices: {}\nmore: 1"
    )

    assert found.exit_code == 2
    named = [line.strip().partition(":")[0] for line in found.stderr.splitlines()[1:]]
    assert sorted(named) == [
        *("bookies.a", "more", "policy.placement.zones[1]", "policy.reads.pendingLimit"),
        *("prices.asOf", "prices.currency", "prices.perGB", "prices.source"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "standard input:2:1: not YAML: a stands here a second time"),
        ("a: [", "standard input:1:5: not YAML: "),
        ("a: 1\n---\nb: 2", "not YAML: "),
        ("a: \x00", "not YAML: "),
        ("a: !!python/object/apply:os.system [x]", "not YAML: could not determine a constructor"),
        ("[" * 5_000, "not YAML: "),
        ("x" * (1 << 20) + "x", "larger than 1 MiB"),
        ("{[]: 1}", "not YAML: "),
    ],
)
def test_a_file_that_is_not_yaml_is_named_with_the_place(text: str, message: str) -> None:
    found = explain(text)

    assert found.exit_code == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_an_alias_that_holds_itself_is_refused_like_any_wrong_value() -> None:
    found = explain("bookies: &b {a: *b}\npolicy: {placement: {zones: [a]}}")

    assert found.exit_code == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "cluster.yaml"
    found = CliRunner().invoke(main, ["placement", "explain", str(missing)])

    assert found.exit_code == 2
    assert found.stderr == f"Error: {missing}: No such file or directory\n"


# ── as people run it ──


def run(*arguments: str, stdin: str = "", hash_seed: int = 0) -> subprocess.CompletedProcess[str]:
    script = Path(sys.executable).with_name("zonekeeper")
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "COLUMNS": "80"}
    return subprocess.run(
        [script, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_report_is_the_same_every_time(output: str) -> None:
    one, two = (
        run("placement", "explain", str(EXAMPLE), "-o", output, hash_seed=seed) for seed in (1, 2)
    )

    assert one.stdout == two.stdout
    assert one.returncode == two.returncode == 0


def test_the_installed_command_explains_the_example() -> None:
    done = run("placement", "explain", str(EXAMPLE))

    assert (done.returncode, done.stderr) == (0, "")
    assert "What a ledger made now survives" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_installed_command_exits_one_when_it_is_illegal() -> None:
    assert run("placement", "explain", "-", stdin=ILLEGAL).returncode == 1


def test_a_zone_that_is_never_held_is_a_warning_and_stands_beside_what_is_survived() -> None:
    # S126.
    small = SMALL.replace("c: 3", "c: 1")
    text = words(explain(small).stdout)

    assert "zone c has 1 bookie, so its loss is never held" in text
    assert "[zone-never-gated]" in text
    assert "The loss of zone c is survived as the table says, but it is never held" in text
    assert report(small)["neverGated"] == ["c"]
    assert report(SMALL)["neverGated"] == []
    assert "never held" not in words(explain(SMALL).stdout)
