"""Cookies, service info, under-replication, layout, paths: Apache's bytes both ways."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats import (
    cookies,
    ledger_paths,
    protobuf_text,
    service_info,
    underreplication_format,
)
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.metadata.formats.protobuf import FieldKind, Message, Schema, Spec
from zonekeeper.metadata.formats.service_info import Endpoint, PublishedRoom, ServiceInfo
from zonekeeper.metadata.formats.underreplication_format import Underreplicated
from zonekeeper.metadata.ledgers import ledger_ids
from zonekeeper.metadata.store import layout
from zonekeeper.metadata.store.layout import Root
from zonekeeper.placement.base.ids import BookieId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location

Golden = Callable[[str], bytes]
AT = Location(ZoneName("az-1"), UpgradeDomain("ud-0"))

APACHE_COOKIE = Cookie(
    bookie=BookieId("127.0.0.1:33171"),
    journal_dirs=("/data/iop1/journal",),
    ledger_dirs=("/data/iop1/ledger",),
    index_dirs=("/data/iop1/ledger",),
    instance="d58c3de9-d9c6-429e-be20-474dcad4d089",
)


# ── cookies ──


def test_apaches_cookie_is_read_and_written_to_the_last_byte(golden: Golden) -> None:
    assert cookies.parse(golden("cookie")) == APACHE_COOKIE
    assert cookies.render(APACHE_COOKIE) == golden("cookie")


def test_the_location_is_a_comment_at_the_end(golden: Golden) -> None:
    raw = cookies.render(APACHE_COOKIE.at(AT))
    assert raw == golden("cookie") + b'# networkLocation: "/az-1/ud-0"\n'
    assert cookies.parse(raw).location == AT


@pytest.mark.parametrize(
    "line",
    [
        b'networkLocation: "/az-1/ud-0"\n',
        b'\n\n   #networkLocation:"/az-1/ud-0"\n',
        b'# networkLocation: "/az-1/ud-0"\nnetworkLocation: "/az-1/ud-0"\n',
    ],
)
def test_the_location_is_read_in_each_form(line: bytes, golden: Golden) -> None:
    assert cookies.parse(golden("cookie") + line).location == AT


@pytest.mark.parametrize(
    ("line", "flaw"),
    [
        (b'# networkLocation: "az-1"\n', Flaw.OUT_OF_RANGE),
        (b'# networkLocation: "/az-1/ud-0"\n# networkLocation: "/az-2/ud-0"\n', Flaw.INCONSISTENT),
        (b'indexDirs: "1\\t/x"\n', Flaw.DUPLICATE),
        (b"journalDir\n", Flaw.BAD_TEXT),
        (b'} x: "', Flaw.BAD_TEXT),
        (b"\xff\n", Flaw.BAD_TEXT),
    ],
)
def test_a_cookie_that_says_what_it_must_not_is_refused(
    line: bytes, flaw: Flaw, golden: Golden
) -> None:
    with pytest.raises(MalformedError) as caught:
        cookies.parse(golden("cookie") + line)
    assert caught.value.flaw is flaw


def test_a_cookie_of_a_later_version_is_unsupported(golden: Golden) -> None:
    with pytest.raises(UnsupportedError, match="version 6"):
        cookies.parse(golden("cookie").replace(b"5", b"6", 1))
    with pytest.raises(UnsupportedError, match="field rackId"):
        cookies.parse(golden("cookie") + b'rackId: "r"\n')


def test_directories_that_are_counted_wrong_are_refused(golden: Golden) -> None:
    with pytest.raises(MalformedError, match="says '2' and lists 1"):
        cookies.parse(golden("cookie").replace(b'ledgerDirs: "1', b'ledgerDirs: "2'))


paths = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=",\t"), min_size=1),
    min_size=1,
    max_size=4,
).map(tuple)
zone_names = st.from_regex(r"[a-z0-9_.-]{1,8}", fullmatch=True).filter(
    lambda n: n not in (".", "..")
)


@given(
    st.from_regex(r"[A-Za-z0-9:_-]{1,12}", fullmatch=True).filter(cookies.is_bookie_id),
    paths,
    paths,
    st.just(()) | paths,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.none() | st.builds(Location, zone_names.map(ZoneName), zone_names.map(UpgradeDomain)),
)
def test_every_cookie_comes_back_as_it_was_written(
    bookie: str,
    journal: tuple[str, ...],
    ledger: tuple[str, ...],
    index: tuple[str, ...],
    instance: str,
    location: Location | None,
) -> None:
    cookie = Cookie(
        bookie=BookieId(bookie),
        journal_dirs=journal,
        ledger_dirs=ledger,
        index_dirs=index,
        instance=instance,
        location=location,
    )
    assert cookies.parse(cookies.render(cookie)) == cookie


@pytest.mark.parametrize("name", ["", "readonly", "a/b", "a b", "..", "ü"])
def test_what_is_no_bookie_id_is_refused(name: str) -> None:
    assert not cookies.is_bookie_id(name)
    with pytest.raises(ValueError, match="no bookie id"):
        Cookie(bookie=BookieId(name), journal_dirs=("/j",), ledger_dirs=("/l",))


def test_a_location_is_filled_in_moved_between_upgrade_domains_and_never_between_zones() -> None:
    elsewhere = Location(ZoneName("az-2"), UpgradeDomain("ud-0"))
    next_domain = Location(ZoneName("az-1"), UpgradeDomain("ud-1"))
    assert cookies.located(APACHE_COOKIE, AT).location == AT
    assert cookies.located(APACHE_COOKIE.at(AT), next_domain).location == next_domain
    assert cookies.located(APACHE_COOKIE.at(AT), None).location == AT
    with pytest.raises(cookies.LocationUnknownError, match="ZONEKEEPER_ZONE"):
        cookies.located(APACHE_COOKIE, None)
    with pytest.raises(cookies.ZoneChangedError, match="zone az-2, and its cookie says zone az-1"):
        cookies.located(APACHE_COOKIE.at(AT), elsewhere)


def test_a_cookie_of_another_bookie_or_disk_is_refused_by_name_of_the_field() -> None:
    cookies.check_same_bookie(APACHE_COOKIE.at(AT), APACHE_COOKIE)
    other = Cookie(
        bookie=APACHE_COOKIE.bookie,
        journal_dirs=APACHE_COOKIE.journal_dirs,
        ledger_dirs=("/data/other",),
        index_dirs=APACHE_COOKIE.index_dirs,
        instance=APACHE_COOKIE.instance,
    )
    with pytest.raises(cookies.OtherBookieError, match="ledger_dirs"):
        cookies.check_same_bookie(APACHE_COOKIE, other)


# ── service info ──


def test_apaches_service_info_is_read_and_written_to_the_last_byte(golden: Golden) -> None:
    info = service_info.parse(golden("service-info"))
    endpoint = Endpoint(id="bookie", host="127.0.0.1", port=33171, protocol="bookie-rpc")
    assert info == ServiceInfo(endpoints=(endpoint,))
    assert info.bookie is None, "it does not speak our protocol"
    assert service_info.render(info) == golden("service-info")


def test_a_bookie_of_ours_is_known_by_its_endpoint() -> None:
    info = service_info.of_bookie("10.0.0.7", 3181, AT, tls=True)
    read = service_info.parse(service_info.render(info))
    assert read == info
    assert read.bookie == info.endpoints[0]
    assert read.properties == {"networkLocation": "/az-1/ud-0"}
    assert (read.http, read.boot_epoch) == (None, None)


def test_a_bookie_says_where_it_is_looked_at_and_which_start_this_is() -> None:
    info = service_info.of_bookie("h", 3181, AT, tls=False, http_port=8080, boot_epoch=7)
    read = service_info.parse(service_info.render(info))
    assert read == info
    assert read.http is not None
    assert (read.http.port, read.boot_epoch) == (8080, 7)


@pytest.mark.parametrize("text", ["", "-1", "seven", "\u0663", "7" * 5_000], ids=range(5))
def test_a_boot_epoch_that_is_no_number_says_nothing(text: str) -> None:
    assert ServiceInfo(endpoints=(), properties={"bootEpoch": text}).boot_epoch is None


ROOM = PublishedRoom(free_bytes=300, total_bytes=1 << 40)
#: A registration with a room, as it was first released. It never changes: see the golden files.
WITH_ROOM = (
    "321f0a06626f6f6b696510ed181a0168220f7a6f6e656b65657065722d677270633a1d0a0f6e6574776f726b"
    "4c6f636174696f6e120a2f617a2d312f75642d303a270a04726f6f6d121f763120667265653d33303020746f"
    "74616c3d31303939353131363237373736"
)


def test_the_room_of_a_bookie_is_a_property_of_fixed_bytes() -> None:
    info = service_info.of_bookie("h", 3181, AT, tls=False)
    told = info.with_room(ROOM)

    assert told.properties["room"] == "v1 free=300 total=1099511627776"
    assert service_info.render(told).hex() == WITH_ROOM
    assert service_info.parse(bytes.fromhex(WITH_ROOM)) == told
    assert told.room == ROOM
    assert info.room is None
    assert told.with_room(None) == info


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1 free=2 total=1",
        "v1 free=0 total=0",
        "v1 free=-1 total=1",
        "v1 free=1 total=1 ",
        "v1 free=\u0661 total=1",
        "v2 free=1 total=1",
        "v1 free=1 total=" + "9" * 5_000,
    ],
    ids=range(8),
)
def test_a_room_of_another_version_or_without_sense_is_unknown(text: str) -> None:
    assert ServiceInfo(endpoints=(), properties={"room": text}).room is None


def test_s178_a_shared_disk_is_a_property_of_its_own_that_older_readers_pass_over() -> None:
    info = service_info.of_bookie("h", 3181, AT, tls=False)
    told = info.with_room(replace(ROOM, disk="00c0ffee00c0ffee"))

    assert told.properties["disk"] == "v1 00c0ffee00c0ffee"
    assert told.properties["room"] == info.with_room(ROOM).properties["room"], "as before"
    assert told.room == replace(ROOM, disk="00c0ffee00c0ffee")
    assert service_info.parse(service_info.render(told)) == told
    assert told.with_room(ROOM) == info.with_room(ROOM)
    assert told.with_room(None) == info


@pytest.mark.parametrize("text", ["", "v1 ", "v2 00c0ffee00c0ffee", "v1 00C0FFEE00C0FFEE", "v1 0"])
def test_a_disk_without_sense_is_shared_by_nobody(text: str) -> None:
    room = ServiceInfo(endpoints=(), properties={"room": str(ROOM), "disk": text}).room
    assert room == ROOM


def test_a_full_bookie_says_so() -> None:
    info = ServiceInfo(endpoints=(), properties={"room": "v1 free=0 total=9"})
    assert info.room == PublishedRoom(free_bytes=0, total_bytes=9)


def test_no_bytes_are_a_bookie_without_endpoints() -> None:
    assert service_info.parse(b"").bookie is None


# ── under-replication ──


def test_a_mark_is_apaches_text() -> None:
    mark = Underreplicated(replicas=(BookieId("a-0"), BookieId("b-1")), marked_ms=1700000000000)
    raw = underreplication_format.render(mark)
    assert raw == b'replica: "a-0"\nreplica: "b-1"\nctime: 1700000000000\n'
    assert underreplication_format.parse(raw) == mark
    assert underreplication_format.parse(b"") == Underreplicated(replicas=())


def test_the_other_nodes_of_repair_are_apaches_too(golden: Golden) -> None:
    assert golden("underreplication-layout") == underreplication_format.LAYOUT
    holder = underreplication_format.render_holder(BookieId("worker"))
    assert holder == b'bookieId: "worker"\n'
    assert underreplication_format.parse_holder(b'bookieId: "localhost"') == "localhost"
    assert underreplication_format.render_seconds(300) == b"300"
    assert underreplication_format.render_time(1) == b"\x08\x01"
    assert underreplication_format.parse_time(underreplication_format.render_time(10**12)) == 10**12


@given(st.integers(0, 2**63 - 1).map(LedgerId))
def test_a_marks_path_says_which_ledger_it_is_of(ledger_id: LedgerId) -> None:
    path = underreplication_format.ledger_path(ledger_id)
    assert underreplication_format.parse_ledger_path(path) == ledger_id
    lock = underreplication_format.lock_name(ledger_id)
    assert underreplication_format.parse_lock_name(lock) == ledger_id


def test_a_marks_path_is_apaches() -> None:
    path = underreplication_format.ledger_path(LedgerId(0x2A))
    assert path == "/0000/0000/0000/002a/urL0000000042"
    assert underreplication_format.parse_ledger_path("/0000/0000/0000/002b/urL0000000042") is None
    assert underreplication_format.parse_lock_name("urL00000000042") is None


# ── layout and paths ──


def test_layout_and_instance_are_apaches(golden: Golden) -> None:
    assert golden("layout") == layout.LAYOUT
    layout.parse_layout(golden("layout"))
    assert layout.parse_instance_id(golden("instance-id")) == "45c09177-dcdb-4054-80e3-7ee4864d7f06"


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (layout.LAYOUT.replace(b"Hierarchical", b"Flat"), UnsupportedError),
        (layout.LAYOUT.replace(b"2", b"3", 1), UnsupportedError),
        (b"", MalformedError),
        (b"hello", MalformedError),
        (b"\xff\n:", MalformedError),
        (layout.LAYOUT + b"x" * 2000, MalformedError),
    ],
)
def test_another_layout_is_refused(raw: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        layout.parse_layout(raw)


@pytest.mark.parametrize("raw", [b"", b"x", b"D58C3DE9-D9C6-429E-BE20-474DCAD4D089", b"\xff" * 36])
def test_an_instance_that_is_no_canonical_uuid_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        layout.parse_instance_id(raw)


@pytest.mark.parametrize("path", ["", "/", "ledgers", "/a//b", "/a/", "/a.zonekeeper"])
def test_what_cannot_be_a_root_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="cannot be a root"):
        Root(path)


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/00/0000/L0000"),
        (123456789, "/01/2345/L6789"),
        (2**31 - 2, "/21/4748/L3646"),
        (2**31 - 1, "/000/0000/0021/4748/L3647"),
        (2**63 - 1, "/922/3372/0368/5477/L5807"),
    ],
)
def test_a_ledgers_path_is_apaches(ledger_id: int, path: str) -> None:
    assert ledger_paths.path(LedgerId(ledger_id)) == path
    assert ledger_paths.parse(path) == ledger_id


@given(st.integers(0, 2**63 - 1).map(LedgerId))
def test_every_ledgers_path_is_read_back(ledger_id: LedgerId) -> None:
    assert ledger_paths.parse(ledger_paths.path(ledger_id)) == ledger_id


@pytest.mark.parametrize(
    "path",
    [
        "/21/4748/L3647",  # an id of the long form, in the short tree
        "/000/0000/0000/0000/L0001",  # and the other way round
        "/999/9999/9999/9999/L9999",
        "/00/0000/L001",
        "/00/0000/0001",
        "/available",
        "/idgen-long/HOB-0000000001",
        "/00/0000/L000\u0661",
        "",
    ],
)
def test_what_is_no_ledgers_path_is_told_apart(path: str) -> None:
    assert ledger_paths.parse(path) is None


def test_the_name_of_a_high_part_is_apaches() -> None:
    assert ledger_ids.high_directory(1) == "HOB-0000000001"
    assert ledger_ids.parse_high_directory("HOB-2147483647") == 2**31 - 1
    for name in ("HOB-2147483648", "HOB-0000000000", "HOB-1", "ID-0000000001"):
        assert ledger_ids.parse_high_directory(name) is None


# ── protobuf's text ──

THING = Schema(
    "thing",
    Spec(1, "name", FieldKind.BYTES),
    Spec(2, "count", FieldKind.NUMBER),
    Spec(3, "part", Schema("part", Spec(1, "size", FieldKind.NUMBER)), repeated=True),
)


@given(st.binary(max_size=60))
def test_any_bytes_survive_being_quoted(value: bytes) -> None:
    text = f"name: {protobuf_text.quoted(value)}"
    assert text.isascii()
    assert Message(THING, protobuf_text.to_binary(text, THING)).raw("name") == value


def test_the_text_forms_that_people_and_java_write_are_read() -> None:
    text = """
    # a comment
    name: 'it' "\\x27s" '\\054\\?'   # neighbours are one
    part { size: 1 } part: {size:-2}
    """
    message = Message(THING, protobuf_text.to_binary(text, THING))
    assert message.raw("name") == b"it's,?"
    assert len(message.all_bytes("part")) == 2


@pytest.mark.parametrize(
    "text",
    [
        "name 'x'",
        "name: x",
        "count: 12x",
        "count: 1.5",
        "count: 9223372036854775808",
        "part { size: 1",
        "part size: 1 }",
        "name: '\\q'",
        "name: 'open",
        "name: 'two\nlines'",
        "}",
        "@",
        "count: 0x10",
        "count: 010",
        "# " * 5000 + "\n@",
    ],
)
def test_text_that_breaks_its_rules_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        protobuf_text.to_binary(text, THING)
