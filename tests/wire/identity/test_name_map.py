"""The map of foreign names: which principal a certificate becomes, and what is refused."""

import re
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zonekeeper.wire.identity import name_map
from zonekeeper.wire.identity.principals import PeerNames, Principal, Role

MAP = name_map.parse(
    """
    # who is who
    uri  spiffe://prod/ns/*/sa/ingest   client        ingest   # of any namespace
    uri  spiffe://prod/ns/*/sa/*        monitor       others
    dns  *.repair.example.com           autorecovery  repair
    dns  console.example.com            monitor       console
    cn   alice                          admin         alice
    """
)


def found(
    *, uris: tuple[str, ...] = (), dns: tuple[str, ...] = (), common_name: str = ""
) -> set[str]:
    names = PeerNames(uris=uris, dns=dns, common_name=common_name)
    return {str(each) for each in MAP.principals_of(names)}


def test_the_first_line_that_matches_a_name_counts() -> None:
    assert found(uris=("spiffe://prod/ns/a/sa/ingest",)) == {"client/ingest"}
    assert found(uris=("spiffe://prod/ns/a/sa/other",)) == {"monitor/others"}


def test_each_name_of_a_certificate_counts() -> None:
    assert found(dns=("x.repair.example.com", "console.example.com"), common_name="alice") == {
        "autorecovery/repair",
        "monitor/console",
        "admin/alice",
    }


def test_a_star_is_no_slash_in_a_uri_no_dot_in_a_dns_name_and_never_nothing() -> None:
    assert found(uris=("spiffe://prod/ns/a/b/sa/ingest",)) == set()
    assert found(uris=("spiffe://prod/ns//sa/ingest",)) == set()
    assert found(dns=("a.b.repair.example.com",)) == set()
    assert found(dns=(".repair.example.com",)) == set()


def test_a_pattern_is_the_whole_name_and_its_other_characters_are_themselves() -> None:
    assert found(common_name="alice2") == set()
    assert found(common_name="xalice") == set()
    assert found(common_name="alice\n") == set()
    assert found(dns=("consoleXexample.com",)) == set()


def test_only_dns_names_are_compared_without_regard_to_case() -> None:
    assert found(dns=("CONSOLE.Example.com",)) == {"monitor/console"}
    assert found(common_name="Alice") == set()


def test_a_name_of_one_kind_is_not_one_of_another() -> None:
    assert found(dns=("alice",), uris=("alice", "console.example.com")) == set()
    assert found(common_name="console.example.com") == set()


def test_a_uri_of_our_own_scheme_is_never_mapped() -> None:
    wide = name_map.parse("uri *://any/admin/a client c")
    assert wide.principals_of(PeerNames(uris=("other://any/admin/a",))) == (
        Principal(Role.CLIENT, "c"),
    )
    assert wide.principals_of(PeerNames(uris=("zonekeeper://any/admin/a",))) == ()


def test_a_name_that_is_too_long_is_not_looked_at() -> None:
    any_name = name_map.parse("cn a* client c\ndns a* client d\nuri a* client e")
    long = "a" * 513
    assert any_name.principals_of(PeerNames(uris=(long,), dns=(long,), common_name=long)) == ()
    assert len(any_name.principals_of(PeerNames(uris=("ab",), dns=("ab",), common_name="ab"))) == 3


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("uri a client", "3 words; a line has four"),
        ("uri a client b c", "5 words"),
        ("ip 10.0.0.1 client c", "'ip' is no kind of name; there are: uri, dns, cn"),
        ("cn a root c", "'root' is no role; there are: bookie, autorecovery"),
        ("cn a client c/d", "'c/d' cannot be a principal's name"),
        ("cn * client c", "'\\*' would be every name"),
        ("cn ** client c", "would be every name"),
        ("dns a.**.b client c", "two stars side by side"),
        ("dns *.*.*.*.*.a client c", "5 stars; at most 4"),
        ("uri zonekeeper://any/admin/a client c", "a URI of our own scheme is never mapped"),
        ("uri ZoneKeeper://any/* client c", "a URI of our own scheme is never mapped"),
    ],
)
def test_a_bad_line_refuses_the_whole_file_with_its_number(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"line 3: .*{why}"):
        name_map.parse(f"# first\ncn a client c\n{line}\n")


def test_a_file_has_so_many_lines() -> None:
    with pytest.raises(ValueError, match="10001 lines"):
        name_map.parse("\n" * 10_001)
    assert name_map.parse("\n" * 10_000).lines == ()


# ── patterns with several stars ──

#: What a star stands for, by the kind's word.
STARS: Final = {"uri": "[^/]+", "dns": r"[^.]+", "cn": ".+"}


@given(
    st.sampled_from(sorted(STARS)),
    st.lists(st.text("ab/.", min_size=1, max_size=3), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
    st.lists(st.text("ab/.", max_size=3), min_size=6, max_size=6),
)
@example("cn", ["a", "b", "b"], False, False, ["", ".b.", "..", "", "", ""])
def test_a_pattern_matches_what_some_length_of_each_star_matches(
    kind: str, parts: list[str], begins: bool, ends: bool, fillers: list[str]
) -> None:
    parts = [""] * begins + parts + [""] * ends
    if len(parts) - 1 > name_map.STARS_MAX:
        parts = parts[:1] + parts[-name_map.STARS_MAX :]
    (line,) = name_map.parse(f"{kind} {'*'.join(parts)} client x").lines
    name = "".join(filler + part for filler, part in zip(fillers, parts, strict=False))
    every_length = re.compile(STARS[kind].join(map(re.escape, parts)))
    assert bool(line.pattern.fullmatch(name)) is bool(every_length.fullmatch(name))


@pytest.mark.parametrize("kind", ["uri", "dns", "cn"])
def test_no_name_takes_long_to_compare(kind: str) -> None:
    """With every length of every star tried it would take a minute for each of these names."""
    made = name_map.parse(f"{kind} *a*a*a*b client x")
    name = "a" * 512
    names = {
        "uri": PeerNames(uris=(name,)),
        "dns": PeerNames(dns=(name,)),
        "cn": PeerNames(common_name=name),
    }[kind]
    for _ in range(1_000):
        assert made.principals_of(names) == ()
