"""`prepare` unpacks zips of a source next to the destination, within limits, and removes the files afterwards."""

from __future__ import annotations

import io
import json
import re
import shlex
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.build import a_folder
from wdsctl import Dataset
from wdsctl.core.errors import InputError, StorageError, UsageError, WdsctlError
from wdsctl.core.prepare import archives
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + b"\0" * 40


def a_zip(files: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 2, 3, 4, 5, 6)), data, method)
    return target.getvalue()


def read_members(dest: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for shard in sorted(dest.glob("*.tar")):
        with tarfile.open(shard) as tar:
            found |= {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    return found


PAIRS = {f"{i}.{part}": data + b"%d" % i for i in range(4) for part, data in (("jpg", JPEG), ("txt", b"a cat "))}


@pytest.mark.parametrize(
    ("files", "source", "folder"),
    [
        ({"raw.zip": a_zip(PAIRS)}, "raw.zip", ""),
        ({"raw.zip": a_zip({f"raw/{name}": data for name, data in PAIRS.items()})}, "raw.zip", "raw/"),
        ({"all/a.zip": a_zip(PAIRS)}, "all", "a/"),
        ({"all/a.zip": a_zip({f"b/{name}": data for name, data in PAIRS.items()})}, "all", "b/"),
        ({"o.zip": a_zip({"i.zip": a_zip({"p/i.zip": a_zip(PAIRS)})})}, "o.zip", "p/i/"),
        ({"o.zip": a_zip({"__MACOSX/._0.jpg": b"x", ".hidden": b"x", **PAIRS})}, "o.zip", ""),
    ],
)
def test_files_in_zips_become_samples(tmp_path: Path, files: dict[str, bytes], source: str, folder: str) -> None:
    a_folder(tmp_path, files)

    report = prepare(str(tmp_path / source), str(tmp_path / "made"))

    assert read_members(tmp_path / "made") == {f"{folder}{name}": data for name, data in PAIRS.items()}
    assert report.source == str(tmp_path / source)
    assert not (tmp_path / "made.unpacked").exists()
    assert prepare(str(tmp_path / source), str(tmp_path / "made")).up_to_date


def test_zip_with_files_of_a_table_is_unpacked_and_kept(tmp_path: Path) -> None:
    rows = [
        {
            "image": f"images/{i}.jpg",
            "conversations": [{"from": "human", "value": "<image>?"}, {"from": "gpt", "value": "!"}],
        }
        for i in range(3)
    ]
    images = a_zip({f"{i}.jpg": JPEG + bytes([i]) for i in range(3)})
    root = a_folder(tmp_path / "llava", {"llava.json": json.dumps(rows).encode(), "images.zip": images})

    prepare(root, str(tmp_path / "made"))

    assert sorted(data for name, data in read_members(tmp_path / "made").items() if name.endswith("jpg")) == [
        JPEG + bytes([i]) for i in range(3)
    ]
    assert (tmp_path / "llava/images.zip").exists()


def test_zip_that_is_a_sample_part_is_not_unpacked(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {f"{i}.{part}": JPEG for i in range(3) for part in ("jpg", "zip")})

    prepare(root, str(tmp_path / "made"), PrepareRequest(accept_type=True))

    assert "0.zip" in read_members(tmp_path / "made")


def test_unpacked_folder_is_kept_after_error_and_removed_by_next_run(tmp_path: Path) -> None:
    a_folder(tmp_path, {"raw.zip": a_zip({**PAIRS, "9.jpg": JPEG})})
    source, dest = str(tmp_path / "raw.zip"), str(tmp_path / "made")

    with pytest.raises(WdsctlError) as caught:
        prepare(source, dest)
    assert caught.value.code == "WDS201"
    assert (tmp_path / "made.unpacked/raw/9.jpg").exists()

    prepare(source, dest, PrepareRequest(on_missing="skip"))
    assert not (tmp_path / "made.unpacked").exists()


def a_bomb() -> bytes:
    data = bytearray(a_zip({"a.txt": b"\0" * 1000}))
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (1 << 31).to_bytes(4, "little")  # the size that the directory claims
    return bytes(data)


def a_damaged_bzip2_zip() -> bytes:
    data = bytearray(a_zip({"a.txt": bytes(range(256)) * 40}, method=zipfile.ZIP_BZIP2))
    data[40:60] = bytes(20)
    return bytes(data)


def a_damaged_lzma_zip() -> bytes:
    data = bytearray(a_zip({"a.txt": bytes(range(256)) * 40}, method=zipfile.ZIP_LZMA))
    data[data.index(b"a.txt") + len("a.txt") + 4] = 0xFF  # the first property of the compression
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (a_damaged_bzip2_zip(), "WDS233", "the zip cannot be read: Invalid data stream"),
        (a_damaged_lzma_zip(), "WDS233", "the zip cannot be read: Invalid or unsupported options"),
        (a_zip({"../x.jpg": JPEG}), "WDS240", "leads out of it"),
        (a_zip({"/x.jpg": JPEG}), "WDS240", "leads out of it"),
        (a_zip({"a\\..\\..\\x.jpg": JPEG}), "WDS240", "leads out of it"),
        (a_bomb(), "WDS240", "claims to hold 2,147,483,648"),
        (a_zip({"1.zip": a_zip({"1.zip": a_zip({"1.zip": a_zip({"x.jpg": JPEG})})})}), "WDS240", "more than 3 deep"),
        (a_zip(PAIRS, method=zipfile.ZIP_STORED).replace(b"a cat 1", b"a dog 1"), "WDS233", "Bad CRC-32"),
        (a_zip(PAIRS)[:-30], "WDS233", "the zip cannot be read"),
    ],
)
def test_unsafe_or_damaged_zip_is_refused(tmp_path: Path, data: bytes, code: str, words: str) -> None:
    a_folder(tmp_path, {"raw.zip": data})

    with pytest.raises(WdsctlError) as caught:
        prepare(str(tmp_path / "raw.zip"), str(tmp_path / "made"))

    assert caught.value.code == code
    assert words in caught.value.message
    assert {path.name for path in tmp_path.iterdir()} <= {"raw.zip", "made.unpacked"}


def test_zip_with_link_is_refused(tmp_path: Path) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        link = zipfile.ZipInfo("x.jpg")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    a_folder(tmp_path, {"raw.zip": target.getvalue()})

    with pytest.raises(InputError, match="is a link"):
        prepare(str(tmp_path / "raw.zip"), str(tmp_path / "made"))


def test_zip_larger_than_free_disk_space_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_SPARE_BYTES", 1 << 60)
    a_folder(tmp_path, {"raw.zip": a_zip(PAIRS)})

    with pytest.raises(StorageError, match="the disk of the destination has"):
        prepare(str(tmp_path / "raw.zip"), str(tmp_path / "made"))


def test_zip_needs_destination_and_foreign_unpack_folder_is_kept(tmp_path: Path) -> None:
    a_folder(tmp_path, {"raw.zip": a_zip(PAIRS), "made.unpacked/mine.txt": b"mine"})

    with pytest.raises(UsageError, match="missing DEST"):
        prepare(str(tmp_path / "raw.zip"))
    with pytest.raises(InputError, match="the folder for the files of the zips exists"):
        prepare(str(tmp_path / "raw.zip"), str(tmp_path / "made"))
    assert (tmp_path / "made.unpacked/mine.txt").read_bytes() == b"mine"


def test_other_archives_in_raw_folder_are_refused(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {"more.7z": b"7z", "0.jpg": JPEG})

    with pytest.raises(InputError, match=r"1 archive in the source, such as more\.7z") as caught:
        prepare(root, str(tmp_path / "made"))
    assert caught.value.code == "WDS240"


def test_commands_in_findings_about_zips_do_not_name_the_removed_folder(tmp_path: Path) -> None:
    files = {f"train/{name}/{i}{name}.jpg": JPEG + bytes([i]) for name in ("cat", "dog") for i in range(2)}
    a_folder(tmp_path, {"raw.zip": a_zip(files | {"test/9.jpg": JPEG})})

    report = prepare(str(tmp_path / "raw.zip"), str(tmp_path / "made"))

    assert report.conversion is not None
    assert report.conversion.findings[0].message.endswith("run `wdsctl prepare FOLDER/test DEST`")


class EncodedName(zipfile.ZipInfo):
    """An entry whose name is in another encoding than UTF-8, or in UTF-8 without the flag."""

    encoding = "utf-8"

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:  # noqa: N802 - of zipfile
        return self.filename.encode(self.encoding), self.flag_bits & ~0x800


def an_encoded_zip(names: Mapping[str, bytes], encoding: str, extra: bytes = b"") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in names.items():
            entry = EncodedName(name)
            entry.encoding, entry.extra = encoding, extra
            archive.writestr(entry, data)
    return target.getvalue()


NAMES = {f"{name}.{part}": data for name in ("\u72d7", "\u9e1f") for part, data in (("jpg", JPEG), ("txt", b"a cat"))}


def test_names_in_utf_8_without_the_flag_are_utf_8(tmp_path: Path) -> None:
    zips = a_folder(tmp_path / "zips", {"raw.zip": an_encoded_zip(NAMES, "utf-8")})

    prepare(f"{zips}/raw.zip", str(tmp_path / "made"))
    prepare(zips)  # in place

    assert read_members(tmp_path / "made") == NAMES
    assert sorted(sample["__key__"] for sample in Dataset(zips, decode=False)) == ["\u72d7", "\u9e1f"]


def test_name_of_the_unicode_path_field_counts_if_it_belongs_to_the_entry(tmp_path: Path) -> None:
    raw, name = "\u72d7.jpg".encode("gbk"), "\u72d7.jpg".encode()
    for number, (crc, is_read) in enumerate(((zlib.crc32(raw), True), (0, False))):
        extra = struct.pack("<2HBI", 0x7075, 5 + len(name), 1, crc) + name
        path = tmp_path / f"{number}.zip"
        path.write_bytes(an_encoded_zip({"\u72d7.jpg": JPEG}, "gbk", extra))

        if is_read:
            prepare(str(path), str(tmp_path / "made"))
            assert read_members(tmp_path / "made") == {"\u72d7.jpg": JPEG}
        else:
            with pytest.raises(InputError, match="does not say the encoding"):
                prepare(str(path), str(tmp_path / "other"))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the option of zipfile is new in Python 3.11")
def test_names_in_an_unknown_encoding_are_refused_with_commands_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my photos.zip").write_bytes(an_encoded_zip(NAMES, "gbk"))

    with pytest.raises(InputError) as error:
        prepare("my photos.zip", "made")

    assert error.value.code == "WDS240"
    assert "in gb18030, the first is \u72d7.jpg" in error.value.message
    unpack, again = re.findall("`(.*?)`", error.value.hint)
    subprocess.run([sys.executable, *shlex.split(unpack)[1:]], check=True)
    _, _, source, _ = shlex.split(again)
    prepare(source, "made")
    assert read_members(tmp_path / "made") == NAMES
    zips = a_folder(tmp_path / "zips", {"raw.zip": Path("my photos.zip").read_bytes()})
    with pytest.raises(WdsctlError, match="does not say its encoding"):
        prepare(zips)  # in place
