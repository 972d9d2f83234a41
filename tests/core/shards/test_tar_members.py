from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.build import a_scan, a_shard, an_archive, memory_reader
from wdsctl.core.shards.tar_blocks import TarMembers
from wdsctl.core.shards.tar_members import MAX_NAME_BYTES, ArchiveEnd, SpecialMember, parse_one_by_one, walk_members
from wdsctl.core.tar_header import MAX_PAX_RECORDS, TAR_BLOCK_BYTES, BadTarHeader, pax_records

Found = list[tuple[int, int, int, str]]  # header, data, size, name

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def rows(members: TarMembers) -> Found:
    names = [bytes(row).rstrip(b"\0").decode("utf-8", "surrogateescape") for row in members.names]
    return list(
        zip(members.header_offsets.tolist(), members.data_offsets.tolist(), members.sizes.tolist(), names, strict=True)
    )


def walk(data: bytes, *, window: int = 1 << 20, hop: int = 4096) -> tuple[Found, list[SpecialMember], ArchiveEnd]:
    found: Found = []
    odd: list[SpecialMember] = []
    endings: list[ArchiveEnd] = []
    for item in walk_members(memory_reader(data), len(data), window=window, header_read_bytes=hop):
        if isinstance(item, TarMembers):
            found += rows(item)
        elif isinstance(item, SpecialMember):
            odd.append(item)
        else:
            endings.append(item)
    (ending,) = endings
    return found, odd, ending


def by_tarfile(data: bytes) -> tuple[Found, list[str]]:
    """The regular members and the names of the others, as Python's tarfile sees them."""
    found: Found = []
    odd: list[str] = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errorlevel=2) as archive:
        for member in archive:
            if member.isreg():
                found.append((member.offset, member.offset_data, member.size, member.name))
            else:
                odd.append(member.name.rstrip("/"))
    return found, odd


letters = st.text(st.sampled_from("abz09._- é漢😀\n"), min_size=1, max_size=12)
short_names = st.lists(letters, min_size=1, max_size=4).map("/".join).filter(lambda name: name.strip("/. \n") != "")
long_names = st.tuples(st.integers(90, 300), letters).map(lambda pair: ("x" * pair[0] + "/" + pair[1])[: pair[0] + 9])
files = st.tuples(st.one_of(short_names, long_names), st.one_of(st.integers(0, 5000), st.just(0), st.just(512)))


class Tar(bytes):
    """Bytes of a tar whose repr lists the members instead of thousands of zeros."""

    members: list[tarfile.TarInfo]

    def __repr__(self) -> str:
        return repr([(member.name, member.type, member.size) for member in self.members])


@st.composite
def archives(draw: st.DrawFn) -> Tar:
    """Tars of every format, with files, folders and links in any order."""
    format = draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))  # noqa: A001
    members = []
    for name, size in draw(st.lists(files, max_size=20)):
        member = tarfile.TarInfo(name)
        member.type = draw(st.sampled_from([tarfile.REGTYPE] * 6 + [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]))
        if member.isreg():
            member.size = size
        elif not member.isdir():
            member.linkname = draw(st.one_of(short_names, long_names))
        if format == tarfile.PAX_FORMAT and draw(st.booleans()):
            member.mtime = 1.5
        members.append(member)
    archive = Tar(an_archive(members, format=format))
    archive.members = members
    return archive


@given(archives())
@settings(max_examples=150, deadline=None)
def test_walk_members_equals_tarfile(data: bytes) -> None:
    found, odd, ending = walk(data)

    assert (found, [member.name.rstrip("/") for member in odd]) == by_tarfile(data)
    assert ending.kind == "mark"


@given(archives(), st.sampled_from([512, 1024, 2048, 8192]))
@settings(max_examples=100, deadline=None)
def test_walk_members_is_independent_of_window_size(data: bytes, window: int) -> None:
    found, odd, ending = walk(data, window=window, hop=512)

    assert sorted(found) == sorted(walk(data)[0])
    assert (len(odd), ending) == (len(walk(data)[1]), walk(data)[2])


@given(archives())
@settings(max_examples=100, deadline=None)
def test_parse_one_by_one_equals_walk_members(data: bytes) -> None:
    parsed, _, ending = parse_one_by_one(memory_reader(data), data, 0, len(data))

    one_by_one = [
        (a, b, c, name.decode()) for a, b, c, name in (row for row in parsed if not isinstance(row, SpecialMember))
    ]
    assert (one_by_one, ending) == (walk(data)[0], walk(data)[2])


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("length", [100, 101, 155, 200, 254])
def test_long_names_are_read_in_every_format(format: int, length: int) -> None:  # noqa: A002
    name = "f" * (length - 99) + "/" + "n" * 94 + ".jpg"
    data = a_shard({name: b"1", "b.txt": b"2"}, format=format)

    assert walk(data)[0] == by_tarfile(data)[0]
    assert walk(data)[0][0][3] == name


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_very_long_names_are_read_among_short_ones(format: int) -> None:  # noqa: A002
    names = ["a.jpg", "x" * 60_000 + ".jpg", *(f"{i}.jpg" for i in range(1000)), "y" * 5_000 + ".jpg", "z.jpg"]
    data = a_shard(dict.fromkeys(names, b""), format=format)

    assert [row[3] for row in walk(data)[0]] == names


def test_webdataset_shards_with_pax_headers_are_read(tmp_path: Path) -> None:
    import webdataset

    with webdataset.TarWriter(str(tmp_path / "a.tar")) as writer:
        for i in range(300):
            writer.write({"__key__": f"{i:06d}", "txt": f"text {i}", "cls": i})
    data = (tmp_path / "a.tar").read_bytes()

    assert data[156:157] == b"x"
    assert walk(data)[0] == by_tarfile(data)[0]
    assert len(walk(data)[0]) == 600


def test_nested_tar_is_one_member() -> None:
    inner = a_shard({f"{i}.jpg": b"inner" for i in range(50)})
    data = a_shard([("a.tar", inner), ("b.jpg", b"outer"), ("c.tar", inner[512:]), ("d.jpg", b"")])

    for window in (1 << 20, 512, 4096):
        assert [row[3] for row in walk(data, window=window)[0]] == ["a.tar", "b.jpg", "c.tar", "d.jpg"]


def test_large_members_are_skipped_and_small_ones_read_in_windows() -> None:
    large = {f"{i}.bin": bytes(200_000) for i in range(10)}
    data = a_shard({**large, **{f"{i}.txt": b"x" for i in range(10_000)}})
    reads: list[int] = []

    def read(offset: int, size: int) -> bytes:
        reads.append(size)
        return data[offset : offset + size]

    found = [row for item in walk_members(read, len(data)) if isinstance(item, TarMembers) for row in rows(item)]

    assert found == by_tarfile(data)[0]
    assert reads[1] == 4096
    assert len(reads) < 40


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("size", [3 << 30, 9 << 30])
def test_walk_members_reads_members_of_many_gigabytes(tmp_path: Path, size: int, format: Literal[0, 1, 2]) -> None:  # noqa: A002
    path = tmp_path / "large.tar"
    write_sparse(path, [("a.bin", size), ("a.txt", 3), ("b.bin", size)], format)
    with path.open("rb") as file:

        def read(offset: int, count: int) -> bytes:
            file.seek(offset)
            return file.read(count)

        items = list(walk_members(read, path.stat().st_size))

    found = [row for item in items if isinstance(item, TarMembers) for row in rows(item)]
    with tarfile.open(path) as archive:
        assert found == [(m.offset, m.offset_data, m.size, m.name) for m in archive]
    assert [row[2] for row in found] == [size, 3, size]
    assert items[-1] == ArchiveEnd("mark", found[-1][1] + size)


def write_sparse(path: Path, files: Sequence[tuple[str, int]], format: Literal[0, 1, 2]) -> None:  # noqa: A002
    """Writes a large tar quickly, with holes as data."""
    with path.open("wb") as file:
        for name, size in files:
            member = tarfile.TarInfo(name)
            member.size = size
            file.write(member.tobuf(format))
            file.seek(size + -size % TAR_BLOCK_BYTES, 1)
        file.write(bytes(1024))


def test_size_field_of_twelve_digits_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.tar"
    size = 8**11 + 8
    member = tarfile.TarInfo("a.bin")
    block = bytearray(member.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = b"%012o" % size
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:]))
    path.write_bytes(block)
    os.truncate(path, TAR_BLOCK_BYTES + size + -size % TAR_BLOCK_BYTES + 1024)
    with path.open("rb") as file:

        def read(offset: int, count: int) -> bytes:
            file.seek(offset)
            return file.read(count)

        (members, ending) = walk_members(read, path.stat().st_size)

    assert isinstance(members, TarMembers)
    assert members.sizes.tolist() == [size]
    assert isinstance(ending, ArchiveEnd)
    assert ending.kind == "mark"


def sparse_header(*, continuation_blocks: int) -> bytes:
    """An old GNU sparse header of 512 bytes of data, with this number of continuation blocks."""
    block = bytearray(tarfile.TarInfo("s.bin").tobuf(tarfile.GNU_FORMAT))
    block[156:157] = b"S"
    block[124:136] = b"%011o\0" % 512
    block[482] = bool(continuation_blocks)
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:]))
    return bytes(block) + b"".join(
        bytes(504) + bytes([i + 1 < continuation_blocks]) + bytes(7) for i in range(continuation_blocks)
    )


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_gnu_sparse_file_is_special_and_next_member_is_found(blocks: int) -> None:
    found, odd, ending = walk(sparse_header(continuation_blocks=blocks) + b"x" * 512 + a_shard({"a.jpg": b"1"}))

    assert [member.name for member in odd] == ["s.bin"]
    assert [row[3] for row in found] == ["a.jpg"]
    assert ending.kind == "mark"


def test_pax_sparse_file_is_special() -> None:
    member = tarfile.TarInfo("s.bin")
    member.size = 1024
    member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s.bin"}
    found, odd, _ = walk(an_archive([member, tarfile.TarInfo("a.jpg")]))

    assert [entry.name for entry in odd] == ["s.bin"]
    assert [row[3] for row in found] == ["a.jpg"]


def test_global_pax_header_is_skipped() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "made here"}) as tar:
        tar.addfile(tarfile.TarInfo("a.jpg"))
    data = file.getvalue()

    assert walk(data)[0] == by_tarfile(data)[0]


def test_pax_size_overrides_header_size() -> None:
    pax = a_shard({"x": b"13 size=1000\n"})[:1024]
    pax = pax[:156] + b"x" + pax[157:]
    pax = pax[:148] + b"%06o\0 " % (sum(pax[:148]) + 256 + sum(pax[156:512])) + pax[156:]
    member = a_shard({"a.bin": b""})[:512]
    data = pax + member + bytes(1024) + a_shard({"b.bin": b"12"})

    assert walk(data)[0] == by_tarfile(data)[0]
    assert [row[2] for row in walk(data)[0]] == [1000, 2]


HEADERS = a_shard({"a.jpg": b"x" * 700, "a.txt": b"", "b.jpg": b"y"})


@pytest.mark.parametrize(
    ("data", "kind", "offset"),
    [
        (b"", "not a tar", 0),
        (b"hello", "not a tar", 0),
        (b"GIF89a" + bytes(5000), "not a tar", 0),
        (bytes(10_240), "mark", 0),
        (bytes(512), "mark", 0),
        (HEADERS[:512], "truncated", 0),
        (HEADERS[:1000], "truncated", 0),
        (HEADERS[:1300], "truncated", 1300),  # within the padding
        (HEADERS[:1536], "no mark", 1536),
        (HEADERS[:1600], "truncated", 1536),  # within a header
        (HEADERS[:2048], "no mark", 2048),
        (HEADERS[:3072], "no mark", 3072),
        (HEADERS[:3072] + bytes(512), "mark", 3072),
        (HEADERS + HEADERS, "trailing data", 3072),
        (HEADERS + b"garbage", "trailing data", 3072),
        (HEADERS[:3072] + bytes(2_000_000), "mark", 3072),
        (HEADERS[:3072] + bytes(2_000_000) + b"x", "trailing data", 3072),
        (HEADERS[:3072] + b"garbage" + bytes(600), "bad header", 3072),
        (HEADERS[:1536] + b"?" + HEADERS[1537:], "bad header", 1536),
    ],
)
def test_archive_end_has_kind_and_offset(data: bytes, kind: str, offset: int) -> None:
    ending = walk(data)[2]

    assert (ending.kind, ending.offset) == (kind, offset)


def test_truncated_member_has_name_and_missing_bytes() -> None:
    assert walk(HEADERS[:1000])[2] == ArchiveEnd("truncated", 0, b"a.jpg", 512 + 700 - 1000)


def test_truncated_member_has_name_of_long_name_header() -> None:
    data = a_shard({"n" * 150 + ".jpg": bytes(600)}, format=tarfile.GNU_FORMAT)

    assert walk(data[:1100])[2].name == b"n" * 150 + b".jpg"
    assert walk(data[:600])[2].name == b""


@given(archives(), st.integers(0, 1 << 30))
@settings(max_examples=200, deadline=None)
def test_truncated_tar_never_raises_and_keeps_whole_members(data: bytes, cut: int) -> None:
    cut %= len(data) + 1
    found, _, ending = walk(data[:cut])

    assert found == [row for row in walk(data)[0] if row[1] + row[2] <= cut][: len(found)]
    assert len(found) >= len([row for row in walk(data)[0] if row[1] + row[2] + -row[2] % TAR_BLOCK_BYTES <= cut])
    assert 0 <= ending.offset <= cut


@given(archives(), st.lists(st.integers(0, 1 << 30), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_flipped_bits_never_raise_or_give_offsets_outside_file(data: bytes, bits: list[int]) -> None:
    flipped = bytearray(data)
    for bit in bits:
        flipped[bit // 8 % len(data)] ^= 1 << bit % 8

    found, _, ending = walk(bytes(flipped))

    assert all(0 <= header < start <= start + size <= len(data) for header, start, size, _ in found)
    assert 0 <= ending.offset <= len(data)


@given(st.binary(max_size=3000))
@example(b"\0" * 511)
@settings(max_examples=100)
def test_random_bytes_never_raise(data: bytes) -> None:
    walk(data)
    walk(HEADERS[:1536] + data)


def test_negative_size_is_bad_header() -> None:
    block = bytearray(a_shard({"a.jpg": b""})[:512])
    for field in (b"-0000001000\0", b"\xff" * 12):
        block[124:136] = field
        block[148:156] = b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:]))

        assert walk(HEADERS[:1536] + bytes(block) + HEADERS)[2].kind == "bad header"


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_member_with_too_long_name_is_skipped(format: int) -> None:  # noqa: A002
    names = ["1.txt", "a" * (MAX_NAME_BYTES - 4) + ".txt", "b" * (MAX_NAME_BYTES - 3) + ".txt", "4.txt"]

    found, odd, ending = walk(a_shard(dict.fromkeys(names, b""), format=format))

    assert [row[3] for row in found] == [names[0], names[1], names[3]]
    assert [(item.name, item.is_too_long) for item in odd] == [("b" * 60, True)]
    assert ending.kind == "mark"


def test_names_of_a_megabyte_are_scanned_quickly() -> None:
    names = [f"{i}" + "k" * ((1 << 20) - 64) + ".txt" for i in range(50)]
    data = a_shard(dict.fromkeys(names, b""), format=tarfile.GNU_FORMAT)
    start_time = time.perf_counter()

    scan = a_scan(data)

    assert time.perf_counter() - start_time < 5
    assert [(finding.code, finding.count) for finding in scan.findings if finding.code == "WDS165"] == [("WDS165", 50)]


def test_pax_header_with_too_many_records_is_refused() -> None:
    record = b"9 a=1234\n"
    assert pax_records(record * MAX_PAX_RECORDS) == {b"a": b"1234"}
    with pytest.raises(BadTarHeader, match="more than 1000 records"):
        pax_records(record * (MAX_PAX_RECORDS + 1))
