"""Whatever happens to Secrets, clocks and operators, processes go on trusting each other."""

import random
from dataclasses import replace

import pytest

from tests.operator.certificates.trusting import LAG_MS, MADE_MS, RULES, SETTLE_MS, Trusting
from zonekeeper.operator.certificates import renewing
from zonekeeper.operator.certificates.renewing import (
    BundleAuthorities,
    IssueCertificate,
    MakeAuthority,
    PromoteAuthority,
    TrustAuthorities,
)
from zonekeeper.operator.certificates.sights import CertificateSight
from zonekeeper.placement.base import units

NAMES = ("a", "b", "repair")


def built(*, seed: int = 0) -> Trusting:
    world = Trusting(*NAMES, seed=seed)
    world.rest()
    world.steps.clear()
    return world


def kinds(world: Trusting) -> list[type]:
    """Give the kinds of steps, each once while it is repeated."""
    found = [type(step) for step in world.steps]
    return [one for index, one in enumerate(found) if index == 0 or found[index - 1] is not one]


def test_a_new_cluster_has_its_certificates_at_once() -> None:
    world = Trusting(*NAMES)

    assert [world.turn(0), world.turn(0), world.turn(0)] == [1, 3, 0]
    assert [type(one) for one in world.steps] == [MakeAuthority, *[IssueCertificate] * 3]
    assert world.authority is not None
    assert world.authority.active is not None
    assert world.issuers() == {world.authority.active.print}


@pytest.mark.parametrize("seed", range(5))
def test_another_authority_is_trusted_before_it_signs_and_the_old_one_until_all_is_read(
    seed: int,
) -> None:
    world = built(seed=seed)
    (old,) = world.issuers()

    world.word = "please"
    world.rest()

    assert kinds(world) == [
        *(MakeAuthority, BundleAuthorities, PromoteAuthority),
        *(IssueCertificate, TrustAuthorities, BundleAuthorities),
    ]
    (new,) = world.issuers()
    assert new != old
    assert world.trusted() == {frozenset({new})}


def test_nothing_signs_or_goes_before_nothing_has_changed_for_the_whole_time() -> None:
    world = built()
    world.word = "please"
    world.turn(0)
    world.turn(0)
    for wanted in (PromoteAuthority, TrustAuthorities):
        while world.turn(0):
            pass
        assert world.turn(SETTLE_MS - 1) == 0
        assert world.turn(1) == 1
        assert isinstance(world.steps[-1], wanted)


def test_an_operator_that_has_just_come_counts_anew() -> None:
    world = built()
    world.word = "please"
    while world.turn(0):
        pass
    world.turn(SETTLE_MS - 1)

    world.restart()

    assert world.turn(1) == 0
    assert world.turn(SETTLE_MS - 1) == 0
    assert world.turn(1) == 1


def test_a_word_is_obeyed_once_and_another_one_again() -> None:
    world = built()
    for word in ("one", "two"):
        world.word = word
        world.rest()
        world.rest()
    assert sum(isinstance(step, MakeAuthority) for step in world.steps) == 2


def test_words_that_come_faster_than_rotations_end_pile_up_no_authorities() -> None:
    world = built()
    for number in range(1_000):
        world.word = str(number)
        world.turn()
        assert world.authority is not None
        assert len(world.authority.trusted) <= 2
    assert sum(isinstance(step, MakeAuthority) for step in world.steps) >= 10
    world.rest()
    assert world.authority is not None
    assert world.authority.word == "999"
    assert world.trusted() == {frozenset(world.issuers())}


def test_a_certificate_is_renewed_when_a_third_is_left() -> None:
    world = built()
    assert world.turn(RULES.lifetime_ms * 2 // 3 - units.HOUR_MS) == 0
    assert world.turn(2 * units.HOUR_MS) == len(NAMES)
    assert kinds(world) == [IssueCertificate]
    assert world.turn() == 0


def test_a_certificate_lasts_no_longer_than_its_authority_and_is_not_renewed_in_vain() -> None:
    world = Trusting(*NAMES)
    world.rules = replace(RULES, authority_lifetime_ms=RULES.lifetime_ms)
    world.rest()
    world.steps.clear()
    world.rules = replace(world.rules, authority_lifetime_ms=3_000)  # none follows it
    assert world.authority is not None
    assert world.authority.active is not None
    for leaf in world.leaves.values():
        assert leaf.certificate is not None
        assert leaf.certificate.not_after_ms <= world.authority.active.not_after_ms

    assert world.turn(RULES.lifetime_ms * 5 // 6) == 0


def test_another_authority_follows_when_a_third_is_left() -> None:
    world = built()
    world.turn(RULES.authority_lifetime_ms * 2 // 3 - 200 * units.DAY_MS)
    world.rest()
    assert MakeAuthority not in kinds(world)

    world.turn(200 * units.DAY_MS)
    world.rest()
    assert [type(step) for step in world.steps].count(MakeAuthority) == 1


def test_more_bookies_have_their_names_before_they_are_made() -> None:
    world = built()
    first, *others = world.subjects
    world.subjects = (replace(first, dns=(*first.dns, "a-1")), *others)

    assert world.turn() == 1
    assert "a-1" in world.leaves[first.secret].dns
    world.subjects = (first, *others)
    assert world.turn() == 0, "a name more does no harm"


def test_a_certificate_of_another_principal_is_put_right() -> None:
    world = built()
    name = world.subjects[0].secret
    world.leaves[name] = replace(world.leaves[name], uris=frozenset({"zonekeeper://i/admin/x"}))

    assert world.turn() == 1
    assert world.leaves[name].uris == {world.subjects[0].uri}


@pytest.mark.parametrize("is_rotating", [False, True])
def test_a_secret_that_was_removed_or_spoilt_is_made_again_at_once(*, is_rotating: bool) -> None:
    world = built()
    one, two, _ = (each.secret for each in world.subjects)
    if is_rotating:
        world.word = "please"
        while world.turn(0):
            pass
    del world.leaves[one]
    world.leaves[two] = replace(world.leaves[two], certificate=None, issuer=None)

    assert world.turn(0) == 2
    assert all(leaf.certificate is not None for leaf in world.leaves.values())
    world.rest()


@pytest.mark.parametrize("seed", range(5))
def test_a_lost_authority_is_replaced_without_a_broken_handshake(seed: int) -> None:
    world = built(seed=seed)
    (old,) = world.issuers()

    world.authority = None
    world.rest()

    (new,) = world.issuers()
    assert new != old
    assert world.trusted() == {frozenset({new})}


def test_an_authority_whose_secret_was_spoilt_is_replaced() -> None:
    world = built()
    assert world.authority is not None
    world.authority = replace(world.authority, active=None, trusted=())
    world.rest()
    assert [type(step) for step in world.steps].count(MakeAuthority) == 1


@pytest.mark.parametrize("seed", range(5))
def test_an_authority_that_a_person_puts_there_signs_once_all_trust_it(seed: int) -> None:
    world = built(seed=seed)
    other = Trusting(*NAMES)
    other.rest()
    assert world.authority is not None
    assert other.authority is not None
    assert other.authority.active is not None
    theirs = replace(other.authority.active, print="theirs", pem="theirs\n")

    world.authority = replace(world.authority, active=theirs)
    world.rest()

    assert world.issuers() == {"theirs"}
    assert world.trusted() == {frozenset({"theirs"})}


@pytest.mark.parametrize("seed", range(5))
def test_an_authority_from_a_backup_signs_only_once_all_trust_it_again(seed: int) -> None:
    world = built(seed=seed)
    backup = world.authority
    world.word = "please"
    world.rest()

    world.authority = backup
    world.rest()


@pytest.mark.parametrize("ahead_ms", [units.HOUR_MS, 400 * units.DAY_MS, 40_000 * units.DAY_MS])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_clock_that_jumps_issues_nothing_that_is_not_valid_now(ahead_ms: int, sign: int) -> None:
    world = built()
    world.skew_ms = sign * ahead_ms
    world.word = "please"
    world.rest()
    world.skew_ms = 0
    world.word = "again"
    world.rest()

    now_ms = MADE_MS + world.now_ms
    for step in world.steps:
        if isinstance(step, IssueCertificate | MakeAuthority):
            assert step.validity.not_before_ms < MADE_MS
            assert step.validity.not_after_ms > now_ms


def test_an_authority_that_is_over_is_followed_by_the_same_steps() -> None:
    world = built()
    world.turn(2 * RULES.authority_lifetime_ms)
    world.rest()

    assert kinds(world)[:2] == [MakeAuthority, BundleAuthorities]
    assert kinds(world).count(PromoteAuthority) == 1
    for leaf in world.leaves.values():
        assert leaf.certificate is not None
        assert leaf.certificate.not_after_ms > MADE_MS + world.now_ms


@pytest.mark.parametrize("seed", range(40))
def test_any_history_keeps_processes_trusting_each_other(seed: int) -> None:
    """Operators that die in every step, lost Secrets, clocks that jump, one after another."""
    chance = random.Random(seed)
    world = built(seed=seed)
    backups = [world.authority]
    for _ in range(120):
        match chance.randrange(12):
            case 0:
                world.word = str(chance.random())
            case 1:
                world.skew_ms = chance.choice([0, 1, -1]) * chance.randrange(900) * units.DAY_MS
            case 2:
                world.restart()
            case 3 if len(world.leaves) == len(NAMES):
                # A process goes on with the files that it has read.
                del world.leaves[chance.choice(sorted(world.leaves))]
            case 4 if len(world.leaves) == len(NAMES):
                backups.append(world.authority)
            case 5 if len(world.leaves) == len(NAMES) and chance.random() < 0.3:
                world.authority = chance.choice([None, *backups])
            case _:
                pass
        world.turn(chance.randrange(LAG_MS), dies_after=chance.choice([0, 1, 2, 1_000]))
    world.skew_ms, world.word = 0, "at last"
    world.rest()
    assert len(world.leaves) == len(NAMES)


def test_a_rotation_is_under_way_until_one_authority_is_left() -> None:
    world = built()

    def is_under_way() -> bool:
        return renewing.is_under_way(CertificateSight(authority=world.authority))

    assert not is_under_way()
    world.word = "please"
    world.turn()
    assert is_under_way()
    world.rest()
    assert not is_under_way()
