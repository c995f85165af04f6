"""Who a caller is by the names of its certificate, and what is decided about each operation."""

import pytest

from zonekeeper.wire.identity import callers, name_map, rights
from zonekeeper.wire.identity.callers import Caller, Enforcement, OwnerRule, Verdict
from zonekeeper.wire.identity.name_map import NameMap
from zonekeeper.wire.identity.principals import PeerNames, Principal, Role
from zonekeeper.wire.identity.rights import Operation

HERE = "4f1c"
CLIENT = Caller(principals=(Principal(Role.CLIENT, "a"),))
NOBODY = Caller(why_nobody="its certificate (x) names no role")


def caller(*uris: str, lines: str = "", common_name: str = "") -> Caller:
    names = PeerNames(uris=uris, common_name=common_name)
    return callers.caller_of(names, HERE, name_map.parse(lines))


def test_all_principals_of_a_certificate_count_once_each() -> None:
    found = caller(
        "zonekeeper://any/client/a",
        f"zonekeeper://{HERE}/client/a",
        f"zonekeeper://{HERE}/monitor/b",
        "zonekeeper://other/admin/c",
        common_name="alice",
        lines="cn alice autorecovery alice",
    )
    assert str(found) == "client/a+monitor/b+autorecovery/alice"
    assert found.roles == (Role.CLIENT, Role.MONITOR, Role.AUTORECOVERY)
    assert found.why_nobody is None


def test_nobody_has_a_reason() -> None:
    assert str(caller()) == "nobody"
    assert caller().why_nobody == "its certificate (no name) names no role"
    assert caller(common_name="alice").why_nobody == "its certificate (alice) names no role"
    other = caller("zonekeeper://other/admin/c", "spiffe://a")
    assert "is of another cluster" in str(other.why_nobody)


def test_only_the_first_names_of_a_certificate_are_looked_at() -> None:
    many = tuple(f"spiffe://{n}" for n in range(64))
    assert not caller(*many, "zonekeeper://any/admin/a").principals
    assert caller(*many[1:], "zonekeeper://any/admin/a").principals


@pytest.mark.parametrize(
    ("enforcement", "of_client", "of_nobody"),
    [
        (Enforcement.OFF, Verdict.ALLOWED, Verdict.ALLOWED),
        (Enforcement.WARN, Verdict.WARNED, Verdict.WARNED),
        (Enforcement.NAMED, Verdict.REFUSED, Verdict.WARNED),
        (Enforcement.ON, Verdict.REFUSED, Verdict.REFUSED),
    ],
)
def test_what_is_not_granted_is_dealt_with_as_the_enforcement_says(
    enforcement: Enforcement, of_client: Verdict, of_nobody: Verdict
) -> None:
    assert callers.verdict(CLIENT, Operation.COMPACT, enforcement) is of_client
    assert callers.verdict(NOBODY, Operation.COMPACT, enforcement) is of_nobody
    assert callers.verdict(CLIENT, Operation.READ, enforcement) is Verdict.ALLOWED
    bits = callers.free_bits(CLIENT, enforcement)
    assert bool(bits & Operation.COMPACT.bit) is (of_client is Verdict.ALLOWED)
    assert bits & Operation.READ.bit


@pytest.mark.parametrize(
    "uri",
    [
        "zonekeeper://other/monitor/m",
        "zonekeeper://any/gardener/g",
        "ZoneKeeper://any/monitor/m",
        "zonekeeper://any/monitor",
        "zonekeeper://any/monitor/" + "m" * 600,
    ],
)
def test_who_has_a_role_elsewhere_may_do_nothing_here_and_not_everything(uri: str) -> None:
    """A certificate of before the roles has no such URI: no upgrade shuts one out."""
    stranger = caller(uri, "spiffe://a")
    assert not stranger.principals
    for enforcement, verdict in (
        (Enforcement.OFF, Verdict.ALLOWED),
        (Enforcement.WARN, Verdict.WARNED),
        (Enforcement.NAMED, Verdict.REFUSED),
        (Enforcement.ON, Verdict.REFUSED),
    ):
        assert callers.verdict(stranger, Operation.COMPACT, enforcement) is verdict
    mapped = caller(uri, "spiffe://a", lines="uri spiffe://a client a")
    assert callers.verdict(mapped, Operation.READ, Enforcement.NAMED) is Verdict.ALLOWED
    older = caller("spiffe://a", common_name="zonekeeper")
    assert callers.verdict(older, Operation.COMPACT, Enforcement.NAMED) is Verdict.WARNED


def test_a_refusal_says_who_asks_for_what_and_which_role_is_missing() -> None:
    of_client = callers.refusal(CLIENT, Operation.SET_READ_ONLY)
    assert str(of_client) == (
        "client/a asks for set-read-only, which needs the role autorecovery or admin; nothing was "
        "done; show a certificate of that role"
    )
    of_nobody = callers.refusal(NOBODY, Operation.END_LIMBO)
    assert str(of_nobody).startswith(
        "a caller without a role (its certificate (x) names no role) asks for end-limbo, which "
        "needs the role autorecovery; nothing was done"
    )
    assert not of_client.retryable
    assert not of_client.maybe_applied


def test_a_caller_without_tls_is_nobody() -> None:
    assert callers.verdict(callers.UNKNOWN, Operation.INFO, Enforcement.ON) is Verdict.REFUSED
    assert "it showed no certificate" in str(callers.UNKNOWN.why_nobody)
    assert NameMap().principals_of(PeerNames()) == ()


BOTH = Caller(principals=(Principal(Role.CLIENT, "a"), Principal(Role.CLIENT, "b")))
ADMIN = Caller(principals=(Principal(Role.ADMIN, "a"),))
REPAIR = Caller(principals=(Principal(Role.AUTORECOVERY, "a"),))


@pytest.mark.parametrize(
    ("asker", "owner", "looks", "writes"),
    [
        (CLIENT, "", True, True),
        (CLIENT, "client/a", True, True),
        (CLIENT, "admin/a", False, False),
        (CLIENT, "client/A", False, False),
        (CLIENT, "client/aa", False, False),
        (CLIENT, "a", False, False),
        (CLIENT, "?", False, False),
        (BOTH, "client/b", True, True),
        (BOTH, "client/a+client/b", False, False),
        (ADMIN, "client/a", True, False),
        (ADMIN, "admin/a", True, True),
        (NOBODY, "", True, True),
        (NOBODY, "nobody", False, False),
        (NOBODY, "client/a", False, False),
        (REPAIR, "client/a", True, False),
    ],
)
def test_an_owner_is_a_role_and_a_name_and_both_must_be_the_callers(
    asker: Caller, owner: str, *, looks: bool, writes: bool
) -> None:
    for operation, may in ((Operation.READ, looks), (Operation.APPEND, writes)):
        for rule, otherwise in (
            (OwnerRule.ON, Verdict.REFUSED),
            (OwnerRule.WARN, Verdict.WARNED),
            (OwnerRule.OFF, Verdict.ALLOWED),
        ):
            found = callers.owner_verdict(asker, operation, owner, rule)
            assert found is (Verdict.ALLOWED if may else otherwise)
    assert callers.owner_verdict(asker, Operation.INFO, owner, OwnerRule.ON) is Verdict.ALLOWED, (
        "a bookie's state is nobody's"
    )


def test_no_owner_is_asked_for_where_it_decides_nothing() -> None:
    """A bit that is set costs a read of metadata."""
    assert callers.own_bits(CLIENT, OwnerRule.OFF) == 0
    assert callers.own_bits(REPAIR, OwnerRule.ON) == 0
    writes = Operation.APPEND.bit | Operation.WRITE_LAC.bit | Operation.FORCE.bit
    assert callers.own_bits(ADMIN, OwnerRule.ON) == writes
    everything = sum(each.bit for each in rights.OWNED)
    for rule in (OwnerRule.WARN, OwnerRule.ON):
        for asker in (CLIENT, NOBODY):
            assert callers.own_bits(asker, rule) == everything
