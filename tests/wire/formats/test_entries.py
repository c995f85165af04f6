"""Entry packets are Apache's, byte for byte, and reading one says what is wrong with it."""

import struct
from itertools import accumulate, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire import hextext
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats import digests, entries
from zonekeeper.wire.formats.entries import EntryFault

APACHE = hextext.read("golden/apache_entries.txt")
PAYLOADS = {(5, 0): b"deferred", (6, 0): b"hello"}
KINDS = list(Digest)

ids = st.integers(0, entries.ID_END - 1)
payloads = st.binary(max_size=200)


def sealer(
    digest: Digest = Digest.CRC32C, ledger: int = 7, password: bytes = b"passwd"
) -> entries.Sealer:
    return entries.Sealer(LedgerId(ledger), digest, password)


def packet(
    entry: int = 3,
    lac: int = 2,
    length: int = 100,
    payload: bytes = b"payload",
    *,
    using: entries.Sealer | None = None,
) -> bytes:
    return (using or sealer()).seal(EntryId(entry), EntryId(lac), length, payload)


# ── Apache's bytes ──


@pytest.mark.parametrize("name", APACHE)
def test_a_packet_of_apache_opens_and_is_sealed_to_the_same_bytes(name: str) -> None:
    ledger, entry, digest = name.split()
    ours = sealer(Digest(digest), int(ledger))

    found = ours.open(APACHE[name], EntryId(int(entry)))

    expected = PAYLOADS.get(
        (found.ledger_id, found.entry_id), (b"hello", b"world!")[found.entry_id]
    )
    assert found.payload == expected
    assert found.last_add_confirmed == found.entry_id - 1
    assert found.length == (len(b"hello") if found.entry_id else 0) + len(expected)
    assert ours.seal(*found[1:]) == APACHE[name]


def test_apache_is_represented_with_every_digest() -> None:
    assert {name.split()[2] for name in APACHE} == set(Digest)


@pytest.mark.parametrize(
    ("password", "key"),
    [
        (b"", "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"),
        (b"passwd", "9596625852f7fafc2c9cf0f9f7f3e5995206452b"),
    ],
)
def test_the_master_key_is_derived_as_apache_does(password: bytes, key: str) -> None:
    assert digests.master_key(password).hex() == key
    assert len(digests.master_key(password)) == digests.MASTER_KEY_BYTES


@pytest.mark.parametrize(
    ("digest", "expected"),
    [
        (Digest.CRC32, "0000000030a56872"),
        (Digest.CRC32C, "e3a5f74d"),
        (Digest.HMAC, "2c5f3dbb8c95c515351daad95c129012c5d7a5f9"),
        (Digest.DUMMY, ""),
    ],
)
def test_digests_of_one_packet_computed_by_hand(digest: Digest, expected: str) -> None:
    built = packet(0, -1, 5, b"hello", using=sealer(digest, 1))

    assert built[:32].hex() == "00000000000000010000000000000000ffffffffffffffff0000000000000005"
    assert built[32:-5].hex() == expected


def test_a_lac_packet_computed_by_hand() -> None:
    ours = sealer(ledger=1)

    assert ours.seal_lac(EntryId(7)).hex() == "0000000000000001000000000000000762842849"
    assert ours.open_lac(ours.seal_lac(EntryId(7))) == 7


# ── round trips ──


@given(digest=st.sampled_from(KINDS), ledger=ids, entry=ids, lac=ids, payload=payloads, more=ids)
def test_what_is_sealed_opens_to_the_same(
    digest: Digest, ledger: int, entry: int, lac: int, payload: bytes, more: int
) -> None:
    ours, length = sealer(digest, ledger), min(len(payload) + more, entries.ID_END - 1)

    built = packet(entry, lac, length, payload, using=ours)

    assert ours.open(memoryview(built), EntryId(entry)) == (ledger, entry, lac, length, payload)
    assert entries.header(built) == (ledger, entry, lac, length)
    assert len(built) == ours.overhead_bytes + len(payload)


@given(digest=st.sampled_from(KINDS), first=st.integers(0, 1 << 40), texts=st.lists(payloads))
def test_consecutive_entries_are_sealed_as_one_by_one(
    digest: Digest, first: int, texts: list[bytes]
) -> None:
    ours, lac, length = sealer(digest), EntryId(first - 1), 5000

    prefixes = ours.prefixes(EntryId(first), lac, length, texts)

    for step, (prefix, text) in enumerate(zip(prefixes, texts, strict=True)):
        length += len(text)
        assert prefix + text == ours.seal(EntryId(first + step), lac, length, text)


@given(digest=st.sampled_from(KINDS), lac=st.integers(-1, entries.ID_END - 1))
def test_a_lac_packet_opens_to_the_lac(digest: Digest, lac: int) -> None:
    ours = sealer(digest)

    assert ours.open_lac(ours.seal_lac(EntryId(lac))) == lac


def test_the_largest_payload_is_sealed_and_opened_under_every_digest() -> None:
    payload = bytes(entries.PAYLOAD_BYTES_MAX)
    for digest in KINDS:
        built = packet(length=len(payload), payload=payload, using=sealer(digest))
        assert len(sealer(digest).open(built, EntryId(3)).payload) == len(payload)


# ── the same entry ──


@pytest.mark.parametrize("digest", KINDS)
def test_the_same_entry_is_ledger_id_length_and_payload_and_nothing_else(digest: Digest) -> None:
    worlds = list(product((1, 2), (3, 4), (-1, 2), (9, 10), (b"", b"ab", b"ac", b"abc")))
    packets = [
        packet(entry, lac, length, payload, using=sealer(digest, ledger))
        for ledger, entry, lac, length, payload in worlds
    ]
    for (one, one_packet), (other, other_packet) in product(
        zip(worlds, packets, strict=True), repeat=2
    ):
        ledger, entry, _, length, payload = other
        expected = (one[0], one[1], one[3], one[4]) == (ledger, entry, length, payload)
        assert entries.same(one_packet, memoryview(other_packet), digest) is expected


def test_a_damaged_digest_does_not_make_another_entry() -> None:
    built = bytearray(packet())
    built[33] ^= 1

    assert entries.same(packet(), bytes(built), Digest.CRC32C)


# ── what is wrong ──


def fault_of(
    packet_bytes: bytes, entry: int = 3, using: entries.Sealer | None = None
) -> EntryFault:
    with pytest.raises(entries.EntryError) as caught:
        (using or sealer()).open(packet_bytes, EntryId(entry))
    assert caught.value.entry_id == entry
    assert caught.value.ledger_id == 7
    assert f"entry {entry} of ledger 7" in str(caught.value)
    return caught.value.fault


@pytest.mark.parametrize("digest", KINDS)
def test_every_truncation_is_noticed(digest: Digest) -> None:
    ours = sealer(digest)
    built = packet(using=ours)
    for size in range(len(built)):
        if size < ours.overhead_bytes:
            assert fault_of(built[:size], using=ours) is EntryFault.TRUNCATED
        elif digest is not Digest.DUMMY:
            assert fault_of(built[:size], using=ours) is EntryFault.DIGEST


@pytest.mark.parametrize("digest", [kind for kind in KINDS if kind is not Digest.DUMMY])
def test_every_flipped_bit_is_noticed(digest: Digest) -> None:
    built = packet(using=sealer(digest))
    for bit in range(len(built) * 8):
        damaged = bytearray(built)
        damaged[bit // 8] ^= 1 << bit % 8
        assert fault_of(bytes(damaged), using=sealer(digest)) is EntryFault.DIGEST


def test_with_dummy_a_flipped_bit_of_the_names_is_still_noticed() -> None:
    ours = sealer(Digest.DUMMY)
    built = packet(using=ours)
    for bit in range(16 * 8):
        damaged = bytearray(built)
        damaged[bit // 8] ^= 1 << bit % 8
        expected = EntryFault.LEDGER if bit < 64 else EntryFault.ENTRY
        assert fault_of(bytes(damaged), using=ours) is expected


def test_another_password_is_a_bad_digest_under_hmac_only() -> None:
    for digest in KINDS:
        foreign = packet(using=sealer(digest, password=b"other"))
        if digest is Digest.HMAC:
            assert fault_of(foreign, using=sealer(digest)) is EntryFault.DIGEST
        else:
            assert sealer(digest).open(foreign, EntryId(3)).payload == b"payload"


def test_a_good_packet_in_the_wrong_place_says_which_name_is_wrong() -> None:
    assert fault_of(packet(using=sealer(ledger=8))) is EntryFault.LEDGER
    assert fault_of(packet(entry=4)) is EntryFault.ENTRY


def resealed(lac: int, length: int, payload: bytes) -> bytes:
    """Seal what ``Sealer`` would not, so that only the number is wrong."""
    head = struct.pack(">qqqq", 7, 3, lac, length)
    digest = digests.digester(Digest.CRC32C, b"").digest(head, payload)
    return head + digest + payload


def test_impossible_numbers_are_refused_although_the_digest_is_good() -> None:
    assert fault_of(resealed(-2, 7, b"payload")) is EntryFault.LAC
    assert fault_of(resealed(2, 6, b"payload")) is EntryFault.LENGTH
    assert fault_of(resealed(2, -1, b"")) is EntryFault.LENGTH


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (packet(using=sealer(ledger=8)), EntryFault.LEDGER),
        (packet(entry=9), EntryFault.ENTRY),
        (resealed(-2, 7, b"payload"), EntryFault.LAC),
        (resealed(2, 6, b"payload"), EntryFault.LENGTH),
        (packet()[:35], EntryFault.TRUNCATED),
        (packet()[:-1] + b"!", EntryFault.DIGEST),
    ],
)
def test_among_good_packets_the_bad_one_is_named_with_its_fault(
    at: int, bad: bytes, fault: EntryFault
) -> None:
    packets = [packet(entry) for entry in (2, 4, 5)]
    packets[at] = bad
    wanted = [EntryId(entry) for entry in (2, 4, 5)]
    wanted[at] = EntryId(3)

    with pytest.raises(entries.EntryError) as caught:
        sealer().open_all(b"".join(packets), wanted, list(accumulate(map(len, packets))))

    assert (caught.value.fault, caught.value.entry_id) == (fault, 3)


def test_a_packet_over_the_limit_is_refused() -> None:
    payload = bytes(entries.PACKET_BYTES_MAX - 36 + 1)

    assert fault_of(resealed(2, len(payload), payload)) is EntryFault.OVERSIZED


def test_a_lac_packet_says_what_is_wrong() -> None:
    ours, good = sealer(), sealer().seal_lac(EntryId(5))
    head = struct.pack(">qq", 7, -2)
    cases = {
        good[:-1]: EntryFault.TRUNCATED,
        b"": EntryFault.TRUNCATED,
        good + b"x": EntryFault.OVERSIZED,
        good[:-1] + b"x": EntryFault.DIGEST,
        sealer(ledger=8).seal_lac(EntryId(5)): EntryFault.LEDGER,
        head + digests.digester(Digest.CRC32C, b"").digest(head, b""): EntryFault.LAC,
    }
    for bad, fault in cases.items():
        with pytest.raises(entries.EntryError, match="a LAC packet of ledger 7") as caught:
            ours.open_lac(bad)
        assert caught.value.fault is fault
        assert caught.value.entry_id is None


def test_an_hmac_is_not_told_to_whoever_reads_the_error() -> None:
    ours = sealer(Digest.HMAC)
    good = packet(using=ours)
    with pytest.raises(entries.EntryError) as caught:
        ours.open(good[:32] + bytes(20) + good[52:], EntryId(3))

    assert good[32:52].hex() not in str(caught.value)


@settings(max_examples=200)
@given(st.binary(max_size=120), st.sampled_from(KINDS))
def test_arbitrary_bytes_are_an_entry_error_or_an_entry(data: bytes, digest: Digest) -> None:
    ours = sealer(digest)
    try:
        found = ours.open(data, EntryId(3))
    except entries.EntryError:
        return
    assert ours.seal(*found[1:]) == data
    assert found.last_add_confirmed >= NO_ENTRY
