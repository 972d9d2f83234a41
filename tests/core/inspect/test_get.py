from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder, an_image, rewritten, samples
from tests.remote import FaultyFileSystem, uploaded
from wdsctl.core.errors import DatasetError, InputError, StorageError, UsageError, WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.inspect import get as verb
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
def test_a_part_is_its_bytes(root: str) -> None:
    assert bytes_of(root, "2") == b"only"
    assert bytes_of(root, "1", part="seg.png") == b"mask"
    assert bytes_of(root, "1.seg.png") == b"mask"
    assert bytes_of(root, "3") == b""
    assert bytes_of(root, "$(reboot)") == b"shell"


def test_a_large_part_comes_in_pieces(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "GET_CHUNK_BYTES", 2)
    assert list(read_part(find_target(root, "2"))) == [b"on", b"ly"]


@pytest.mark.usefixtures("place")
def test_a_key_that_repeats_lists_where_it_stands_and_a_shard_chooses(root: str) -> None:
    with pytest.raises(
        UsageError, match=r"2 samples have the key '1': in b.tar \(position 0\), deep/a.tar \(position 0\)"
    ):
        find_target(root, "1", part="jpg")
    assert bytes_of(root, "1", part="jpg", shard="a.tar") == b"first"
    assert bytes_of(root, "1", part="jpg", shard="b.tar") == b"second"
    with pytest.raises(InputError, match="found in b"):
        find_target(root, "1", shard="c.tar")


def test_within_a_shard_the_position_chooses(tmp_path: Path) -> None:
    from tests.build import a_shard

    root = a_dataset(tmp_path, {"a.tar": a_shard([("1.txt", b"one"), ("2.txt", b"-"), ("1.txt", b"two")])})
    index(root)
    with pytest.raises(UsageError, match=r"2 samples have the key"):
        find_target(root, "1")
    assert bytes_of(root, "1", position=2) == b"two"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ({"key": "4"}, "WDS004", "the nearest: 3"),
        ({"key": "2", "part": "jpg"}, "WDS004", "it has txt"),
        ({"key": "1", "shard": "a.tar"}, "WDS005", "2 parts: jpg, seg.png"),
        ({"key": "' OR 1=1 --"}, "WDS004", "no sample"),
        ({"key": "\x1b[31m"}, "WDS004", r"no sample '\x1b[31m'"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(root: str, words: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(WdsctlError) as caught:
        find_target(root, **words)
    assert (caught.value.code, said in caught.value.message) == (code, True)


def test_a_shard_that_was_replaced_gives_no_other_bytes(root: str) -> None:
    rewritten(os.path.join(root, "deep/a.tar"), samples(0, 50))
    with pytest.raises(StorageError, match="WDS403"):
        bytes_of(root, "2")


def test_files_are_written_whole_or_not_at_all(root: str, tmp_path: Path) -> None:
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
def test_a_folder_gets_every_part_and_nothing_outside_it(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "d", {"a.tar": {"x/1.jpg": b"i", "x/1.txt": b"t", "../up.txt": b"!"}})
    index(root)
    write_target(find_target(root, "x/1", all_parts=True), f"{tmp_path}/out/")
    assert (tmp_path / "out/x/1.jpg").read_bytes() + (tmp_path / "out/x/1.txt").read_bytes() == b"it"
    with pytest.raises(DatasetError, match="out of the output folder"):
        write_target(find_target(root, "../up", all_parts=True), f"{tmp_path}/out/")


def test_devices_are_written_to_and_not_replaced(root: str) -> None:
    write_target(find_target(root, "2"), os.devnull)
    assert not os.path.isfile(os.devnull)


def test_lines_of_jsonl_and_files_of_a_folder_are_parts(tmp_path: Path) -> None:
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
def test_a_remote_part_is_one_ranged_read(root: str, tmp_path: Path) -> None:
    url = uploaded(root, "faulty://bucket/d")
    catalog = str(tmp_path / "c")
    index(url, catalog=catalog)
    FaultyFileSystem.reads.clear()
    assert bytes_of(url, "2", catalog=catalog) == b"only"
    assert [stop - start for _, start, stop in FaultyFileSystem.reads] == [4]


def test_a_catalog_without_rows_of_samples_finds_them_in_the_offsets(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.txt": b"one", "2.txt": b"two"}, "b.tar": {"1.txt": b"again"}})
    index(root, sample_rows=False)
    assert bytes_of(root, "2") == b"two"
    assert bytes_of(root, "1", shard="b.tar") == b"again"
    with pytest.raises(UsageError, match="2 samples have the key"):
        find_target(root, "1")
    with pytest.raises(InputError, match="no sample"):
        find_target(root, "3")


@pytest.mark.usefixtures("place")
def test_a_view_gives_its_own_samples_alone(root: str) -> None:
    create_view(root, "some", ViewDefinition(where="key = '2'"))
    assert bytes_of(f"{root}@some", "2") == b"only"
    with pytest.raises(InputError, match="not in the view"):
        find_target(f"{root}@some", "3")


@pytest.mark.parametrize("sample_rows", [None, True])
def test_a_key_of_lines_with_a_dot_is_no_part_of_another(tmp_path: Path, *, sample_rows: bool | None) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_bytes(b'{"id": "12"}\n{"id": "12.1"}\n')
    index(str(lines), key="id", sample_rows=sample_rows)
    assert bytes_of(str(lines), "12.1").strip() == b'{"id": "12.1"}'
    assert bytes_of(str(lines), "12.json").strip() == b'{"id": "12"}'
    with pytest.raises(InputError, match=r"no sample '12\.0'; the nearest: 12 and 12\.1"):
        find_target(str(lines), "12.0", part="json")


def test_of_a_shard_that_is_gone_its_name_is_told_and_what_to_do(root: str, tmp_path: Path) -> None:
    os.unlink(f"{root}/deep/a.tar")
    for ask in (lambda: bytes_of(root, "2"), lambda: write_target(find_target(root, "2"), str(tmp_path / "out"))):
        with pytest.raises(InputError, match="'2' is missing: deep/a") as caught:
            ask()
        assert (caught.value.code, "index" in caught.value.hint) == ("WDS306", True)
    assert not (tmp_path / "out").exists()
