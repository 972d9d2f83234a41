from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import a_scan, a_shard, an_archive, codes, samples
from wdsctl.core.errors import Finding
from wdsctl.core.samples.naming import split_name
from wdsctl.core.shards.shard_scan import ShardScan

Sample = tuple[str, list[tuple[str, bytes]]]


def read_samples(scan: ShardScan, data: bytes) -> list[Sample]:
    """Every sample of the scan: its key, and its parts in the order of the shard."""
    found: list[Sample] = []
    part = 0
    for key, count in zip(scan.decode_keys(), scan.counts.tolist(), strict=True):
        parts = []
        for i in range(part, part + count):
            start, size = int(scan.part_offsets[i]), int(scan.part_sizes[i])
            parts.append((scan.extensions[scan.part_names[i]], data[start : start + size]))
        found.append((key, parts))
        part += count
    return found


def by_tarfile(data: bytes) -> list[Sample]:
    """The same, computed with Python's tarfile and the naming rule."""
    found: list[Sample] = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            name_parts = split_name(member.name) if member.isreg() else None
            if name_parts is None:
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            if not found or found[-1][0] != name_parts[0]:
                found.append((name_parts[0], []))
            found[-1][1].append((name_parts[1], stream.read()))
    return found


def finding(scan: ShardScan, code: str) -> Finding:
    (found,) = [each for each in scan.findings if each.code == code]
    return found


names = st.builds(
    "{}{}.{}".format,
    st.sampled_from(["", "a/", "a.b/c/", "é/", "x" * 120 + "/"]),
    st.sampled_from(["1", "2", "漢", "a b", "n\n", "y" * 90]),
    st.sampled_from(["jpg", "txt", "seg.png", "metadata.json"]),
)
odd_names = st.sampled_from(["README", ".DS_Store", "a/.hidden", "__meta__.json", "dot.", "__a__x.jpg"])
shards = st.lists(st.tuples(st.one_of(names, names, names, odd_names), st.binary(max_size=700)), max_size=25)


@given(shards, st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
@settings(max_examples=150, deadline=None)
def test_scan_gives_samples_of_tarfile_and_naming_rule(
    files: list[tuple[str, bytes]],
    format: int,  # noqa: A002
) -> None:
    data = a_shard(files, format=format)
    scan = a_scan(data)

    assert read_samples(scan, data) == by_tarfile(data)
    assert scan.status == "ok"
    ends = np.cumsum(scan.counts, dtype=np.int64)
    if scan.samples:
        last = scan.part_offsets[ends - 1] + scan.part_sizes[ends - 1]
        assert (scan.offsets + scan.sizes == last + -last % 512).all()
        assert (scan.offsets[1:] >= (scan.offsets + scan.sizes)[:-1]).all()


@given(st.integers(0, 1 << 30))
@settings(max_examples=150)
def test_truncated_shard_keeps_only_whole_samples(cut: int) -> None:
    data = a_shard(samples(0, 6, "jpg", "seg.png", "txt", size=600))
    cut %= len(data)
    whole = read_samples(a_scan(data), data)
    scan = a_scan(data[:cut])
    found = read_samples(scan, data[:cut])

    if codes(scan) == ["WDS114"]:  # cut at the end of a member: the cut cannot be detected
        assert cut % 512 == 0 or cut > 6 * 3 * 1536
        found = found if found == whole[: len(found)] else found[:-1]
    assert found == whole[: len(found)]
    assert len(found) >= cut // (3 * 1536) - 1 or cut > 6 * 3 * 1536
    assert (scan.status == "ok") == (codes(scan) in ([], ["WDS114"]))
    assert cut < 6 * 3 * 1536 or len(found) == 6


SMALL = a_shard(samples(0, 8, "jpg", "txt", size=40))[: 16 * 1024 + 1024]


@given(st.integers(0, len(SMALL) * 8 - 1))
@settings(max_examples=300, deadline=None)
def test_flipped_bit_is_reported_or_harmless(bit: int) -> None:
    flipped = bytearray(SMALL)
    flipped[bit // 8] ^= 1 << bit % 8
    scan, good = a_scan(bytes(flipped)), a_scan(SMALL)

    if codes(scan) == []:
        assert scan.layout_hash() == good.layout_hash()
    else:
        assert set(codes(scan)) <= {"WDS101", "WDS103", "WDS117"}
        assert scan.decode_keys() == good.decode_keys()[: scan.samples]


def test_incomplete_sample_is_dropped_when_missing_part_is_unknown() -> None:
    data = a_shard(samples(0, 3))
    cut_in_a_header = data[: 5 * 1024 + 100]

    assert a_scan(cut_in_a_header).decode_keys() == ["000000", "000001"]
    assert a_scan(data[: 4 * 1024 + 700]).decode_keys() == ["000000", "000001"]


def test_sample_before_truncated_member_of_next_is_kept() -> None:
    data = a_shard(samples(0, 3, "jpg", size=600))

    assert a_scan(data[: 2 * 1536 + 800]).decode_keys() == ["000000", "000001"]


def test_truncated_shard_finding_has_missing_bytes_and_good_samples() -> None:
    data = a_shard(samples(0, 3, "jpg", size=600))
    found = finding(a_scan(data[: 2 * 1536 + 800]), "WDS102")

    assert found.message == (
        "truncated: member '000002.jpg' needs 312 more bytes than the file has; the 2 samples before it are good"
    )
    assert (found.severity, found.shard, found.offset) == ("error", "a.tar", 2 * 1536)


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"", "bad", "WDS101"),
        (b"hello", "bad", "WDS101"),
        (b"\x1f\x8b\x08" + bytes(3000), "bad", "WDS113"),
        (bytes(1024), "ok", "WDS115"),
        (a_shard({}), "ok", "WDS115"),
        (a_shard({"README": b"no sample"}), "ok", "WDS115"),
        (a_shard(samples(0, 2))[:4096], "ok", "WDS114"),
        (a_shard(samples(0, 2)) * 2, "ok", "WDS117"),
        (a_shard(samples(0, 2)) + b"garbage", "ok", "WDS117"),
        (a_shard({"a.jpg": bytes(600)})[:700], "bad", "WDS102"),
        (a_shard(samples(0, 2))[:4096] + b"?" * 512, "partial", "WDS103"),
    ],
)
def test_scan_reports_status_and_code_of_file_problem(data: bytes, status: str, code: str) -> None:
    scan = a_scan(data)

    assert scan.status == status
    assert codes(scan)[0] == code


def test_only_first_of_joined_tars_is_scanned() -> None:
    scan = a_scan(a_shard(samples(0, 2)) + a_shard(samples(2, 2)))

    assert scan.decode_keys() == ["000000", "000001"]


@pytest.mark.parametrize(
    ("trailing_data", "severity", "message_end"),
    [
        (a_shard(samples(2, 1)), "error", ": 1 sample"),
        (bytes(100_000 // 512 * 512) + a_shard(samples(2, 3)) * 2, "error", ": 6 samples"),
        (b"?" * 512 + a_shard(samples(2, 2))[:3000], "error", ": 2 samples"),
        (a_shard({"README": b"no sample"}), "warning", "stop"),
        (b"rubbish", "warning", "stop"),
    ],
)
def test_samples_after_end_mark_are_counted_as_error(trailing_data: bytes, severity: str, message_end: str) -> None:
    found = finding(a_scan(a_shard(samples(0, 2)) + trailing_data), "WDS117")

    assert (found.severity, found.message.endswith(message_end)) == (severity, True), found.message


def test_folders_and_links_are_counted_and_named() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, kind in [("a", tarfile.DIRTYPE), ("a/1.jpg", tarfile.REGTYPE), ("a/1.txt", tarfile.LNKTYPE)]:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "a/1.jpg" if kind == tarfile.LNKTYPE else ""
            archive.addfile(member)
    scan = a_scan(file.getvalue())

    assert scan.decode_keys() == ["a/1"]
    assert finding(scan, "WDS111").count == 1
    assert "'a/'" in finding(scan, "WDS111").message


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.GNUTYPE_SPARSE, tarfile.FIFOTYPE])
def test_part_that_is_no_regular_file_is_warning(kind: bytes) -> None:
    link, nameless = tarfile.TarInfo("a/1.txt"), tarfile.TarInfo("a/latest")
    for member in (link, nameless):
        member.type, member.linkname = kind, "a/1.jpg"
    scan = a_scan(an_archive([tarfile.TarInfo("a/1.jpg"), link, nameless]))

    lost = finding(scan, "WDS118")
    assert (lost.severity, lost.key, lost.part, lost.offset, lost.count) == ("warning", "a/1", "txt", 512, 1)
    assert finding(scan, "WDS111").severity == "note"


@pytest.mark.parametrize(
    ("magic", "name"), [(b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz")]
)
def test_compressed_file_named_tar_is_recognised_by_magic(magic: bytes, name: str) -> None:
    scan = a_scan(magic + bytes(600))

    assert (scan.status, scan.error_code) == ("bad", "WDS113")
    assert name in finding(scan, "WDS113").message


def test_members_without_key_are_counted_and_do_not_divide_samples() -> None:
    scan = a_scan(a_shard([("1.jpg", b"a"), ("README", b"r"), (".DS_Store", b"d"), ("1.txt", b"b")]))

    assert scan.decode_keys() == ["1"]
    assert scan.counts.tolist() == [2]
    assert finding(scan, "WDS112").count == 2


def test_interleaved_and_duplicate_keys_are_distinguished() -> None:
    interleaved = a_scan(a_shard(dict.fromkeys(["1.jpg", "2.jpg", "1.txt", "2.txt"], b"x")))
    duplicate = a_scan(a_shard([(name, b"x") for name in ("1.jpg", "1.txt", "2.jpg", "1.jpg")]))

    assert (finding(interleaved, "WDS104").count, finding(interleaved, "WDS104").key) == (2, "1")
    assert (finding(duplicate, "WDS105").count, finding(duplicate, "WDS105").key) == (1, "1")
    assert "WDS105" not in codes(interleaved)


def test_distant_duplicate_key_is_found() -> None:
    files = [*samples(0, 70_000, "t", size=0).items(), ("000003.t", b"")]
    scan = a_scan(b"".join(map(bare_member, files)) + bytes(1024))

    assert scan.samples == 70_001
    assert finding(scan, "WDS105").key == "000003"


def bare_member(file: tuple[str, bytes]) -> bytes:
    from wdsctl.core.tar_header import build_tar_header

    return build_tar_header(file[0].encode(), 0)


@pytest.mark.parametrize("others", [0, 97, 98, 99, 100, 300])
def test_duplicate_key_is_found_among_few_and_many_samples(others: int) -> None:
    names = ["a.txt", *(f"{i}.txt" for i in range(others)), "b.txt", "a.txt"]
    scan = a_scan(an_archive([tarfile.TarInfo(name) for name in names]))

    assert finding(scan, "WDS105").key == "a"
    assert codes(a_scan(an_archive([tarfile.TarInfo(name) for name in names[:-1]]))) == ["WDS110"]


def test_duplicate_part_is_found() -> None:
    scan = a_scan(a_shard([("1.jpg", b"a"), ("1.txt", b"b"), ("1.jpg", b"c"), ("2.jpg", b"d")]))

    found = finding(scan, "WDS107")
    assert (found.key, found.part, found.count) == ("1", "jpg", 1)
    assert scan.counts.tolist() == [3, 1]


def test_empty_parts_are_counted_with_first_one_named() -> None:
    scan = a_scan(a_shard({"a/1.jpg": b"x", "a/1.txt": b"", "a/2.jpg": b"", "a/2.txt": b"y"}))

    found = finding(scan, "WDS110")
    assert (found.key, found.part, found.count, found.severity) == ("a/1", "txt", 2, "warning")


def raw_names(*raw: bytes) -> bytes:
    from wdsctl.core.tar_header import build_tar_header

    return b"".join(build_tar_header(name, 0) for name in raw) + bytes(1024)


def test_names_that_are_not_utf_8_are_escaped() -> None:
    scan = a_scan(raw_names(b"\xe9.jpg", b"a.jpg", b"b.\xff"))

    assert scan.decode_keys() == ["\\xe9", "a", "b"]
    assert scan.extensions == ("jpg", "\\xff")
    assert (finding(scan, "WDS116").key, finding(scan, "WDS116").count) == ("\\xe9", 1)


def test_keys_are_decoded_separately() -> None:
    scan = a_scan(raw_names(b"\xc3.jpg", b"\xa9.jpg"))

    assert scan.decode_keys() == ["\\xc3", "\\xa9"]
    assert scan.decode_keys(slice(1, 2)) == ["\\xa9"]


def test_sample_of_seventy_thousand_parts_is_one_sample() -> None:
    scan = a_scan(b"".join(bare_member((f"frame.{i:06d}", b"")) for i in range(70_000)) + bytes(1024))

    assert scan.counts.tolist() == [70_000]
    assert scan.extensions[-1] == "069999"
    assert "WDS107" not in codes(scan)


def test_layout_hash_depends_on_layout_and_not_on_data() -> None:
    one, same, moved, renamed = (
        a_scan(a_shard(files)).layout_hash()
        for files in (
            {"1.jpg": b"a", "1.txt": b"b"},
            {"1.jpg": b"c", "1.txt": b"d"},
            {"1.jpg": b"a", "1.txt": b"bb"},
            {"1.jpg": b"a", "1.cls": b"b"},
        )
    )

    assert one == same
    assert len({one, moved, renamed}) == 3


def test_decode_keys_of_slice_equals_slice_of_all_keys() -> None:
    scan = a_scan(a_shard({f"é{i}.jpg": b"" for i in range(20)}))

    assert scan.decode_keys(slice(3, 9)) == scan.decode_keys()[3:9]
    assert scan.decode_keys(slice(20, 30)) == []


@pytest.mark.parametrize("name", ["/etc/passwd.txt", "../../x.jpg", "a/../b.jpg", "a/..b/../c.jpg"])
def test_unsafe_names_are_findings_and_kept_as_keys(name: str) -> None:
    data = a_shard({"a..b/1.jpg": b"1", name: b"2", "..a.jpg/3.jpg": b"3"})
    scan = a_scan(data)

    assert split_name(name) in [(key, "txt") for key in scan.decode_keys()] + [
        (key, "jpg") for key in scan.decode_keys()
    ]
    assert finding(scan, "WDS128").count == 1
    assert repr(name) in finding(scan, "WDS128").message


def test_devices_links_and_sparse_files_are_reported_without_samples() -> None:
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    members = []
    for i, kind in enumerate(kinds):
        member = tarfile.TarInfo(f"{i}.jpg")
        member.type, member.linkname = kind, "/etc/passwd" if kind in kinds[:2] else ""
        members.append(member)
    sparse = tarfile.TarInfo("9.jpg")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 60)}
    scan = a_scan(an_archive([*members, sparse]))

    assert scan.samples == 0
    assert finding(scan, "WDS118").count == 6


def test_unusual_names_in_pax_headers_are_scanned() -> None:
    names = ["line\nbreak.jpg", "tab\t.jpg", "x" * 5000 + ".jpg", "\u202eabc.jpg", "'; DROP TABLE sample; --.jpg"]
    scan = a_scan(a_shard(dict.fromkeys(names, b"1"), format=tarfile.PAX_FORMAT))

    assert scan.decode_keys() == [name.removesuffix(".jpg") for name in names]
