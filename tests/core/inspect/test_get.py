from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder, an_image, rewrite_shard, samples
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.errors import DatasetError, InputError, StorageError, UsageError, WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.inspect import get as get_module
from wdsctl.core.inspect.get import find_target, read_part, write_target
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = a_dataset(
        tmp_path / "d",
        {
            "deep/a.tar": {"1.jpg": b"first", "1.seg.png": b"mask", "2.txt": b"only", "$(reboot).txt": b"shell"},
            "b.tar": {"1.jpg": b"second", "3.txt": b""},
        },
    )
    index(root)
    return root


def bytes_of(*words: object, **options: object) -> bytes:
    return b"".join(read_part(find_target(*words, **options)))  # type: ignore[arg-type]


@pytest.mark.usefixtures("place")
def test_read_part_returns_bytes_of_part(root: str) -> None:
    assert bytes_of(root, "2") == b"only"
    assert bytes_of(root, "1", part="seg.png") == b"mask"
    assert bytes_of(root, "1.seg.png") == b"mask"
    assert bytes_of(root, "3") == b""
    assert bytes_of(root, "$(reboot)") == b"shell"


def test_read_part_yields_large_part_in_chunks(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_module, "GET_CHUNK_BYTES", 2)
    assert list(read_part(find_target(root, "2"))) == [b"on", b"ly"]


@pytest.mark.usefixtures("place")
def test_find_target_refuses_repeated_key_unless_shard_is_given(root: str) -> None:
    with pytest.raises(
        UsageError, match=r"2 samples have the key '1': in b.tar \(position 0\), deep/a.tar \(position 0\)"
    ):
        find_target(root, "1", part="jpg")
    assert bytes_of(root, "1", part="jpg", shard="a.tar") == b"first"
    assert bytes_of(root, "1", part="jpg", shard="b.tar") == b"second"
    with pytest.raises(InputError, match="found in b"):
        find_target(root, "1", shard="c.tar")


def test_shard_is_given_by_whole_names_of_its_path(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"deep/a.tar": {"1.txt": b"deep"}, "extra.tar": {"1.txt": b"extra"}})
    index(root)

    assert bytes_of(root, "1", shard="a.tar") == b"deep"
    with pytest.raises(InputError, match="is not at this place"):
        find_target(root, "1", shard="tra.tar")


def test_find_target_selects_repeated_key_by_position(tmp_path: Path) -> None:
    from tests.build import a_shard

    root = a_dataset(tmp_path, {"a.tar": a_shard([("1.txt", b"one"), ("2.txt", b"-"), ("1.txt", b"two")])})
    index(root)
    with pytest.raises(UsageError, match=r"2 samples have the key"):
        find_target(root, "1")
    assert bytes_of(root, "1", position=2) == b"two"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ({"key": "4"}, "WDS004", "its neighbours in the order of keys: 3"),
        ({"key": "2", "part": "jpg"}, "WDS004", "it has txt"),
        ({"key": "1", "shard": "a.tar"}, "WDS005", "2 parts: jpg, seg.png"),
        ({"key": "' OR 1=1 --"}, "WDS004", "no sample"),
        ({"key": "\x1b[31m"}, "WDS004", r"no sample '\x1b[31m'"),
    ],
)
def test_find_target_error_names_available_alternatives(
    root: str, words: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(WdsctlError) as caught:
        find_target(root, **words)
    assert (caught.value.code, message in caught.value.message) == (code, True)


def test_read_part_refuses_replaced_shard(root: str) -> None:
    rewrite_shard(os.path.join(root, "deep/a.tar"), samples(0, 50))
    with pytest.raises(StorageError, match="WDS403"):
        bytes_of(root, "2")


def test_write_target_writes_complete_files_or_none(root: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.txt")
    assert write_target(find_target(root, "2"), out, dry_run=True).parts[0].output == out
    assert not os.path.exists(out)
    write_target(find_target(root, "2"), out)
    assert Path(out).read_bytes() == b"only"
    with pytest.raises(UsageError, match="output file exists"):
        write_target(find_target(root, "2"), out)
    Path(root, "deep/a.tar").write_bytes(b"")
    with pytest.raises(StorageError):
        write_target(find_target(root, "2"), out, overwrite=True)
    assert Path(out).read_bytes() == b"only"
    assert sorted(os.listdir(tmp_path)) == ["d", "out.txt"]


@pytest.mark.usefixtures("place")
def test_write_target_writes_all_parts_inside_output_folder(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "d", {"a.tar": {"x/1.jpg": b"i", "x/1.txt": b"t", "../up.txt": b"!"}})
    index(root)
    write_target(find_target(root, "x/1", all_parts=True), f"{tmp_path}/out/")
    assert (tmp_path / "out/x/1.jpg").read_bytes() + (tmp_path / "out/x/1.txt").read_bytes() == b"it"
    with pytest.raises(DatasetError, match="out of the output folder"):
        write_target(find_target(root, "../up", all_parts=True), f"{tmp_path}/out/")


def test_write_target_writes_to_device_without_replacing_it(root: str) -> None:
    write_target(find_target(root, "2"), os.devnull)
    assert not os.path.isfile(os.devnull)


def test_find_target_supports_jsonl_and_media_folders(tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_bytes(b'{"id": "p", "v": 1}\n{"id": "q", "v": 2}\n')
    index(str(lines), key="id")
    assert bytes_of(str(lines), "q").strip() == b'{"id": "q", "v": 2}'

    picture = an_image("PNG")
    media = a_folder(tmp_path / "m", {"sub/a b.png": picture})
    index_media_folder(media, media=MediaRequest(selection="auto"))
    assert bytes_of(media, "sub/a b.png") == picture
    write_target(find_target(media, "sub/a b.png", all_parts=True), f"{tmp_path}/out/")
    assert (tmp_path / "out/sub/a b.png").read_bytes() == picture


@pytest.mark.usefixtures("faulty_store")
def test_remote_part_is_read_with_one_range_request(root: str, tmp_path: Path) -> None:
    url = upload_shards(root, "faulty://bucket/d")
    catalog = str(tmp_path / "c")
    index(url, catalog=catalog)
    FaultyFileSystem.reads.clear()
    assert bytes_of(url, "2", catalog=catalog) == b"only"
    assert [stop - start for _, start, stop in FaultyFileSystem.reads] == [512 + 4]  # with its header


def test_find_target_uses_offsets_without_sample_rows(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.txt": b"one", "2.txt": b"two"}, "b.tar": {"1.txt": b"again"}})
    index(root, sample_rows=False)
    assert bytes_of(root, "2") == b"two"
    assert bytes_of(root, "1", shard="b.tar") == b"again"
    with pytest.raises(UsageError, match="2 samples have the key"):
        find_target(root, "1")
    with pytest.raises(InputError, match="no sample"):
        find_target(root, "3")


@pytest.mark.usefixtures("place")
def test_find_target_in_view_finds_only_its_samples(root: str) -> None:
    create_view(root, "some", ViewDefinition(where="key = '2'"))
    assert bytes_of(f"{root}@some", "2") == b"only"
    with pytest.raises(InputError, match="not in the view"):
        find_target(f"{root}@some", "3")


@pytest.mark.parametrize("sample_rows", [None, True])
def test_jsonl_key_with_dot_is_not_read_as_part_of_another(tmp_path: Path, *, sample_rows: bool | None) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_bytes(b'{"id": "12"}\n{"id": "12.1"}\n')
    index(str(lines), key="id", sample_rows=sample_rows)
    assert bytes_of(str(lines), "12.1").strip() == b'{"id": "12.1"}'
    assert bytes_of(str(lines), "12.json").strip() == b'{"id": "12"}'
    with pytest.raises(InputError, match=r"no sample '12\.0'; its neighbours in the order of keys: 12 and 12\.1"):
        find_target(str(lines), "12.0", part="json")


def test_error_for_key_without_folder_names_key_in_folder(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"s.tar": {f"pics/{i}.txt": b"" for i in range(9)}})
    index(root)
    with pytest.raises(InputError, match="no sample '7', but 'pics/7'"):
        find_target(root, "7")


def test_missing_shard_error_has_shard_name_and_hint(root: str, tmp_path: Path) -> None:
    os.unlink(f"{root}/deep/a.tar")
    for read in (lambda: bytes_of(root, "2"), lambda: write_target(find_target(root, "2"), str(tmp_path / "out"))):
        with pytest.raises(InputError, match="'2' is missing: deep/a") as caught:
            read()
        assert (caught.value.code, "index" in caught.value.hint) == ("WDS306", True)
    assert not (tmp_path / "out").exists()


def test_write_target_writes_part_of_any_key_to_named_file(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "d", {"a.tar": {"../up.txt": b"!"}})
    index(root)
    write_target(find_target(root, "../up", part="txt"), f"{tmp_path}/out.txt")
    assert (tmp_path / "out.txt").read_bytes() == b"!"


@pytest.mark.parametrize(
    "files",
    [
        {"1.jpg": b"first", "1.seg.png": b"mask", "9.txt": b"else", "2.txt": b"only"},
        {"1.jpg": b"first", "1.seg.png": b"mask", "2.txt": b"only, but longer", "9.txt": b"else"},
        {"1.jpg": b"first" * 400, "2.txt": b"only"},
    ],
)
def test_read_part_refuses_replaced_shard_of_same_size(root: str, tmp_path: Path, files: dict[str, bytes]) -> None:
    path, out = os.path.join(root, "deep/a.tar"), tmp_path / "out.txt"
    size = os.stat(path).st_size
    rewrite_shard(path, files)
    assert os.stat(path).st_size == size  # tarfile pads to 10 KiB
    with pytest.raises(StorageError, match=r"WDS403: .*no 2\.txt of 4 bytes at byte 2,048"):
        bytes_of(root, "2")
    with pytest.raises(StorageError, match="WDS403"):
        write_target(find_target(root, "2"), str(out))
    assert not out.exists()
