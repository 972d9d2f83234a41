from __future__ import annotations

import io
import random
import re
import tarfile
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import a_scan, a_shard, memory_reader, samples
from wdsctl.core.repair.fixes import Fixes
from wdsctl.core.repair.members import find_missing, members_of_scan
from wdsctl.core.repair.tar import plan_tar, repaired_tar_chunks
from wdsctl.core.samples.naming import split_name

GOOD = a_shard(samples(0, 6, size=700))  # members of 1,536 bytes, two per sample
MAX_HEADER_BYTES = 1536  # of a member of NAMED: a pax header with its records, and the header itself
NAMED = a_shard([(f"ü{i}.{part}", b"x" * 700) for i in range(4) for part in "ab"], format=tarfile.PAX_FORMAT)


def repair_tar(data: bytes) -> tuple[bytes, Fixes]:
    fixes = Fixes()
    found, groups = plan_tar(memory_reader(data), len(data), fixes)
    return b"".join(repaired_tar_chunks(found, groups)), fixes


def members(data: bytes) -> list[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(member.name, archive.extractfile(member).read()) for member in archive if member.isfile()]  # type: ignore[union-attr]


def keys(data: bytes) -> list[str]:
    scan = a_scan(data)
    assert [finding.code for finding in scan.findings] == [], scan.findings
    return scan.decode_keys()


def test_sound_shard_keeps_all_members() -> None:
    output, fixes = repair_tar(GOOD)
    assert (members(output), dict(fixes.counts)) == (members(GOOD), {})


@pytest.mark.parametrize("cut", [512, 1536 * 4 + 100, 1536 * 5 + 512, 1536 * 7 + 1100])
def test_truncated_tar_keeps_only_whole_samples(cut: int) -> None:
    if cut == 512:
        fixes = Fixes()
        found, groups = plan_tar(memory_reader(GOOD[:cut]), cut, fixes)
        assert (groups, found.members) == ([], [])
        return
    output, fixes = repair_tar(GOOD[:cut])
    assert keys(output) == [f"{i:06d}" for i in range(cut // 3072)]
    assert members(output) == members(GOOD)[: 2 * (cut // 3072)]
    assert fixes.counts["truncated tail removed"] == 1


def test_missing_end_mark_is_added_and_incomplete_last_sample_removed() -> None:
    output, fixes = repair_tar(GOOD[: 1536 * 5])
    assert keys(output) == ["000000", "000001"]
    assert (fixes.counts["end mark added"], fixes.counts["incomplete samples removed"]) == (1, 1)


@pytest.mark.parametrize("size", [3072, 1536 + 512 + 700])  # at the end of the first sample, and in its padding
def test_shard_without_end_mark_is_reported_as_possibly_cut_off(size: int) -> None:
    output, fixes = repair_tar(a_shard(samples(0, 2, size=700))[:size])
    assert keys(output) == ["000000"]
    (message,) = fixes.problem_messages()
    assert (
        message == f"no end-of-archive marker: the shard may be cut off, and have had more members after byte {size:,}"
    )


def test_last_sample_is_kept_if_only_half_of_samples_have_more_parts() -> None:
    names = ["0.jpg", "0.txt", "1.jpg", "1.txt", "2.jpg", "3.png", "4.jpg"]
    output, fixes = repair_tar(a_shard(dict.fromkeys(names, b"x"))[: 1024 * len(names)])

    assert [name for name, _ in members(output)] == names
    assert "incomplete samples removed" not in fixes.counts


def test_missing_padding_is_added() -> None:
    data = a_shard(samples(0, 2, size=700))[: 1536 * 3 + 512 + 700]
    output, fixes = repair_tar(data)
    assert keys(output) == ["000000", "000001"]
    assert fixes.counts["padding added"] == 1


def test_wrong_checksum_of_plausible_header_is_recomputed() -> None:
    data = bytearray(GOOD)
    data[1536 * 4 + 148 : 1536 * 4 + 154] = b"000001"
    output, fixes = repair_tar(bytes(data))
    assert (members(output), dict(fixes.counts)) == (members(GOOD), {"checksums recomputed": 1})


@pytest.mark.parametrize("start", [100, 108, 116, 136, 329, 337])  # mode, owner, group, time, device numbers
def test_damaged_number_in_mended_header_does_not_stop_tarfile(start: int) -> None:
    data = bytearray(GOOD)
    data[1536 * 4 + start] = ord("8")  # no octal digit
    output, fixes = repair_tar(bytes(data))
    assert (members(output), dict(fixes.counts)) == (members(GOOD), {"checksums recomputed": 1})


def test_next_good_header_is_found_after_damaged_one() -> None:
    data = bytearray(GOOD)
    data[1536 * 5 + 100 : 1536 * 5 + 400] = bytes(range(256)) + bytes(44)
    output, fixes = repair_tar(bytes(data))
    assert keys(output) == ["000000", "000001", "000003", "000004", "000005"]
    assert fixes.counts == {"damaged bytes removed": 1, "incomplete samples removed": 1}
    assert "1,536 bytes are left out" in fixes.remaining_problems[0]


@pytest.mark.parametrize("end", [2, 3, 20])
def test_concatenated_tars_are_joined_without_loss(end: int) -> None:
    first = GOOD[: 1536 * 12] + bytes(512 * end if end < 20 else -1536 * 12 % 10_240)
    output, fixes = repair_tar(first + a_shard(samples(50, 2)))
    assert keys(output) == [*(f"{i:06d}" for i in range(6)), "000050", "000051"]
    assert dict(fixes.counts) == ({"archives joined": 1} if end != 3 else {"damaged bytes removed": 1})


@pytest.mark.parametrize(("first", "size"), [(5, 512), (5, 1536), (4, 3072), (3, 1536 * 2 + 600)])
def test_zeroed_headers_are_damage_and_not_end_of_tar(first: int, size: int) -> None:
    data = bytearray(GOOD)
    data[1536 * first : 1536 * first + size] = bytes(size)
    output, fixes = repair_tar(bytes(data))
    lost = {i // 2 for i in range(first, first + -(-size // 1536))}
    assert keys(output) == [f"{i:06d}" for i in range(6) if i not in lost]
    assert fixes.counts["damaged bytes removed"] == 1
    assert f"zeros in place of a header at byte {1536 * first:,}" in fixes.problem_messages()[0]


@pytest.mark.parametrize(("member", "kept"), [(3, "023"), (7, "012")])
def test_zeroed_header_after_pax_header_is_damage(member: int, kept: str) -> None:
    data = bytearray(NAMED)
    at = 2560 * member + 1024
    assert data[at : at + 512].startswith(b"?%d.b" % (member // 2))
    data[at : at + 512] = bytes(512)
    output, fixes = repair_tar(bytes(data))
    assert keys(output) == [f"ü{i}" for i in kept]
    assert f"zeros in place of a header at byte {at:,}" in fixes.problem_messages()[0]


def test_trailing_bytes_are_removed() -> None:
    output, fixes = repair_tar(GOOD + b"rubbish")
    assert (members(output), list(fixes.counts)) == (members(GOOD), ["trailing bytes removed"])
    assert "damaged ones, or unrelated data" in fixes.remaining_problems[0]
    fixes = Fixes()
    plan_tar(memory_reader(GOOD + b"rubbish"), len(GOOD) + 7, fixes, members_of_scan(a_scan(GOOD)))
    assert fixes.remaining_problems == fixes.lost_members == []  # all indexed members are present


@pytest.mark.parametrize(
    ("files", "expected", "fix"),
    [
        (["x.a", "y.a", "x.b", "y.b"], ["x.a", "x.b", "y.a", "y.b"], "keys regrouped"),
        (["x.a", "x.b", "y.a", "x.a", "x.b"], ["x.a", "x.b", "y.a", "x_2.a", "x_2.b"], "duplicate keys renamed"),
        (["x.a", "y.a", "x.a", "x_2.a", "x.a"], ["x.a", "y.a", "x_3.a", "x_2.a", "x_4.a"], "duplicate keys renamed"),
        (["x.a", "y.a", "x.a", "y.b", "x.b"], ["x.a", "x.b", "y.a", "y.b", "x_2.a"], "duplicate keys renamed"),
        (["d.e/x.a", "y.a", "d.e/x.a"], ["d.e/x.a", "y.a", "d.e/x_2.a"], "duplicate keys renamed"),
    ],
)
def test_repeated_keys_are_regrouped_or_renamed(files: Sequence[str], expected: Sequence[str], fix: str) -> None:
    output, fixes = repair_tar(a_shard([(name, str(i).encode()) for i, name in enumerate(files)]))
    assert [name for name, _ in members(output)] == list(expected)
    assert fix in fixes.counts
    keys(output)


@pytest.mark.parametrize(
    ("second_part", "fix", "problem_count"),
    [
        (b"1", "duplicate parts removed", 0),
        (b"3", "differing duplicate parts removed", 1),
        (b"11", "differing duplicate parts removed", 1),
    ],
)
def test_last_duplicate_part_is_kept_and_differing_one_reported(
    second_part: bytes, fix: str, problem_count: int
) -> None:
    output, fixes = repair_tar(a_shard([("x.a", b"1"), ("x.b", b"2"), ("x.a", second_part)]))
    assert members(output) == [("x.b", b"2"), ("x.a", second_part)]
    assert (dict(fixes.counts), len(fixes.problem_messages())) == ({fix: 1}, problem_count)


@pytest.mark.parametrize("tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_survive_renaming_and_regrouping(tar_format: int) -> None:
    long = "ü" * 70 + "/x"
    output, _ = repair_tar(a_shard([(f"{long}.a", b"1"), ("y.a", b"2"), (f"{long}.a", b"3")], format=tar_format))
    assert [name for name, _ in members(output)] == [f"{long}.a", "y.a", f"{long}_2.a"]


def test_folders_and_links_keep_their_position() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, kind in (("d", tarfile.DIRTYPE), ("d/x.a", tarfile.REGTYPE), ("d/l.b", tarfile.SYMTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "x.a" if kind == tarfile.SYMTYPE else ""
            archive.addfile(member)
    output, _ = repair_tar(file.getvalue() + b"rubbish")
    with tarfile.open(fileobj=io.BytesIO(output)) as archive:
        assert [(member.name, member.type) for member in archive] == [
            ("d", tarfile.DIRTYPE),
            ("d/x.a", tarfile.REGTYPE),
            ("d/l.b", tarfile.SYMTYPE),
        ]


def test_file_without_tar_members_is_reported() -> None:
    fixes = Fixes()
    _, groups = plan_tar(memory_reader(b"no tar" * 500), 3000, fixes)
    assert (groups, fixes.remaining_problems[-1]) == ([], "the file contains no tar members")


def damage_tar(good: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    data = bytearray(good)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(0, len(good), 512) if rng.random() < 0.7 else rng.randrange(len(good))
        how = rng.choice(("flip", "zeros", "cut"))
        if how == "flip" and at < len(data):
            data[at + rng.randrange(min(512, len(data) - at))] ^= 1 << rng.randrange(8)
        elif how == "zeros":
            data[at : at + 512] = bytes(len(data[at : at + 512]))
        else:
            del data[at:]
    return bytes(data)


@given(st.integers(0, 10_000), st.sampled_from([GOOD, NAMED]))
def test_repaired_copy_of_random_damage_is_sound_and_adds_nothing(seed: int, good: bytes) -> None:
    """The scan of a copy has only findings that repair cannot fix, and tarfile reads all of its members.

    Every member has a name and data that the damaged shard has, the name in the headers before the data.
    """
    damaged = damage_tar(good, seed)
    output, _ = repair_tar(damaged)
    scan = a_scan(output)
    if not scan.samples:
        return
    allowed_codes = {"WDS110", "WDS111", "WDS112", "WDS116", "WDS118", "WDS128"}
    assert {finding.code for finding in scan.findings} <= allowed_codes
    copied = [(name.encode("utf-8", "surrogateescape"), data) for name, data in members(output)]
    names = [name.decode("utf-8", "backslashreplace") for name, _ in copied]
    assert [name for name in names if split_name(name)] == [each.name for each in members_of_scan(scan)]
    for name, data in copied:
        starts = [match.start() for match in re.finditer(re.escape(data), damaged)]
        assert any(name in damaged[max(start - MAX_HEADER_BYTES, 0) : start] for start in starts), name


@given(st.integers(0, 10_000), st.sampled_from([GOOD, NAMED]))
def test_every_indexed_member_is_copied_or_reported_lost(seed: int, good: bytes) -> None:
    known = members_of_scan(a_scan(good))
    data, fixes = damage_tar(good, seed), Fixes()
    found, groups = plan_tar(memory_reader(data), len(data), fixes, known)
    copied = members_of_scan(a_scan(b"".join(repaired_tar_chunks(found, groups)))) if groups else []
    is_compared = not any("was not compared" in words for words in fixes.remaining_problems)
    assert {each.name for each in find_missing(known, copied)} <= set(fixes.lost_members) or not is_compared
    whole = {each.key: {other.part for other in known if other.key == each.key} for each in known}
    parts = {each.key: {other.part for other in copied if other.key == each.key} for each in copied}
    assert all(parts[key] == whole[key] for key in parts if key in whole) or not is_compared


def test_zeros_that_begin_inside_a_member_are_reported() -> None:
    data = bytearray(a_shard(samples(0, 6, "json", size=512)))
    data[1024 * 3 - 40 : 1024 * 4] = bytes(40 + 1024)
    output, fixes = repair_tar(bytes(data))
    assert len(keys(output)) == 5
    assert "begin within 000002.json" in fixes.remaining_problems[0]


def test_joined_tars_of_one_part_samples_are_reported_as_doubtful() -> None:
    first = a_shard(samples(0, 3, "json"))[: 1024 * 3 + 1024]
    output, fixes = repair_tar(first + a_shard(samples(7, 3, "json")))
    assert len(keys(output)) == 6
    assert "may be the remains of a sample with one small part" in fixes.remaining_problems[0]


def test_member_of_damaged_header_is_reported_by_name() -> None:
    data = bytearray(GOOD)
    data[1536 * 5 + 124 : 1536 * 5 + 400] = bytes(range(256)) + bytes(20)
    _, fixes = repair_tar(bytes(data))
    assert fixes.lost_members == ["000002.jpg", "000002.txt"]
