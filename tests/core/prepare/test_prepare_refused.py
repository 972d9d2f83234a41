"""Requests that `prepare` refuses before it writes anything."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.build import AsNobody, a_dataset, a_folder, some_shards, tree
from tests.core.captioned import captions
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.source import recognise_format


@pytest.mark.parametrize(
    ("sample_type", "field_map", "words"),
    [
        ("CaptioningSample", {"image": "jpg", "caption": "cls"}, "cls"),
        ("CaptioningSample", {"image": "jpg", "text": "txt"}, "text"),
        ("CaptioningSample", {"image": "jpg"}, "caption"),
        ("CaptionSample", {"image": "jpg"}, "CaptionSample"),
    ],
)
def test_wrong_field_map_is_refused_without_writing_dataset_yaml(
    tmp_path: Path, sample_type: str, field_map: dict[str, str], words: str
) -> None:
    root = a_dataset(tmp_path, {"a.tar": captions(0, 5)})

    with pytest.raises(UsageError, match=words) as caught:
        prepare(root, request=PrepareRequest(sample_type=sample_type, field_map=field_map))
    assert (caught.value.code, bool(caught.value.hint)) == ("WDS220", True)
    assert not Path(locate(root).config_path).exists()


def test_sample_type_that_does_not_fit_needs_field_map(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": captions(0, 5)})

    with pytest.raises(UsageError, match="VQASample") as caught:
        prepare(root, request=PrepareRequest(sample_type="VQASample"))
    assert "jpg, txt" in caught.value.hint


def test_raw_files_need_destination(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 2))

    assert recognise_format(source).name == "folder"
    with pytest.raises(UsageError, match="missing DEST") as caught:
        prepare(source)
    assert "DEST" in caught.value.hint


def test_prepare_refuses_destination_for_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "tars", 2)
    assert recognise_format(root).name == "shards"

    with pytest.raises(UsageError, match="already contains shards"):
        prepare(root, str(tmp_path / "made"))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("source", "dest"),
    [("raw", "raw"), ("raw", "raw/made"), ("raw/below", "raw"), ("raw", "link"), ("link", "raw/made"), ("link", "raw")],
)
def test_overlapping_source_and_destination_are_refused(tmp_path: Path, source: str, dest: str) -> None:
    a_folder(tmp_path / "raw" / "below", captions(0, 2))
    (tmp_path / "link").symlink_to("raw")
    before = tree(tmp_path)

    with pytest.raises(UsageError, match="overlap"):
        prepare(str(tmp_path / source), str(tmp_path / dest))
    assert tree(tmp_path) == before


@pytest.mark.parametrize("dest", ["made", "raw/link", "raw/link/deeper"])
@pytest.mark.parametrize("parts", [(), ("jpg", "txt", "tar")])
def test_link_from_raw_folder_to_destination_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dest: str, parts: tuple[str, ...]
) -> None:
    """WDSCTL_ALLOW_PATH is set because links out of the folder are followed only where it allows them."""
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", str(tmp_path))
    source = a_folder(tmp_path / "raw", captions(0, 2))
    (tmp_path / "made").mkdir()
    (tmp_path / "raw" / "link").symlink_to("../made")

    with pytest.raises(UsageError, match="has a link to the destination") as caught:
        prepare(source, str(tmp_path / dest), PrepareRequest(parts=parts))
    assert caught.value.where == f"{source}/link and {tmp_path / dest}"
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.parametrize("name", ["deep/er/a.tar", "a.tar.gz"])
def test_nested_shards_are_refused_unless_named_as_parts(tmp_path: Path, name: str) -> None:
    source = a_folder(tmp_path / "raw", {**captions(0, 3), name: b"tar"})
    part = name.split(".", 1)[1]

    with pytest.raises(UsageError, match="already contains shards"):
        prepare(source, str(tmp_path / "made"))
    assert not (tmp_path / "made").exists()
    report = prepare(source, str(tmp_path / "made"), PrepareRequest(parts=(part,), on_missing="keep"))
    assert report.folder is not None
    assert report.folder.samples == 4


@pytest.mark.parametrize(
    ("dest", "options", "error"),
    [
        ("raw/made", PrepareRequest(), UsageError),
        ("made", PrepareRequest(template="shard.tar"), UsageError),
        ("made", PrepareRequest(shard_samples=0), UsageError),
        ("made", PrepareRequest(parts=("png",)), DatasetError),
        ("made", PrepareRequest(parts=("png",), on_missing="skip"), InputError),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_refused_request_leaves_nothing_behind(
    tmp_path: Path, dest: str, options: PrepareRequest, error: type[Exception], is_there: bool
) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 3))
    if is_there:
        (tmp_path / dest).mkdir()
    before = tree(tmp_path)

    with pytest.raises(error):
        prepare(source, str(tmp_path / dest), options)
    assert tree(tmp_path) == before


def test_destination_with_other_shards_is_refused_and_unchanged(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 3))
    some_shards(tmp_path / "made", 2)
    before = tree(tmp_path)

    with pytest.raises(UsageError, match="already contains other shards"):
        prepare(source, str(tmp_path / "made"))
    assert tree(tmp_path) == before


def test_other_source_is_refused_but_moved_source_continues(tmp_path: Path) -> None:
    dest = str(tmp_path / "made")
    prepare(a_folder(tmp_path / "raw", captions(0, 6)), dest)
    other = a_folder(tmp_path / "other", captions(3, 6))
    before = {name: stat for name, stat in tree(dest).items() if name.endswith(".tar")}

    with pytest.raises(UsageError, match="written from another folder"):
        prepare(other, dest)
    assert {name: stat for name, stat in tree(dest).items() if name.endswith(".tar")} == before
    (tmp_path / "raw").rename(tmp_path / "moved")
    assert prepare(str(tmp_path / "moved"), dest).up_to_date


def test_missing_source_is_refused_before_writing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        prepare(str(tmp_path / "none"), str(tmp_path / "made"))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("dest", [None, "out"])
@pytest.mark.parametrize(
    ("source", "words"), [("nope", "the source does not exist"), ("README.md", "cannot recognise the format")]
)
def test_missing_or_unknown_source_error_hints_at_path(
    tmp_path: Path, source: str, words: str, dest: str | None
) -> None:
    a_folder(tmp_path, {"README.md": b"1"})

    with pytest.raises(InputError, match=words) as caught:
        prepare(str(tmp_path / source), dest and str(tmp_path / dest))
    assert "check the path" in caught.value.hint


@pytest.mark.parametrize("exists", [True, False])
def test_unwritable_destination_is_refused_before_writing(
    public_path: Path, as_nobody: AsNobody, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    raw = a_folder(public_path / "raw", captions(0, 5))
    closed = public_path / "closed"
    dest = closed if exists else closed / "below" / "dest"
    closed.mkdir()
    closed.chmod(0o755)
    monkeypatch.setenv("XDG_DATA_HOME", str(public_path / "data"))
    error = as_nobody(lambda: prepare(raw, str(dest)))

    assert isinstance(error, PermissionDenied)
    assert (error.message, error.where) == ("cannot write to the destination", str(dest))
    assert not (public_path / "data").exists()


@pytest.mark.parametrize(
    ("names", "data", "code", "command"),
    [
        (("a.json.gz", "sub/b.json.gz"), b"[1]", "WDS113", "find {} -name '*.gz' -exec gunzip {{}} +"),
        (("a.json.zst", "b.json.zst"), b"[1]", "WDS113", "find {} -name '*.zst' -exec unzstd --rm {{}} +"),
        (("a.json.gz",), b"[1]", "WDS113", "gunzip {}/a.json.gz"),
        (("a.json", "b.json"), b'{"text": "a"}\n{"text": "b"}\n', "WDS235", "find {} -name '*.json' -exec sh -c"),
    ],
)
def test_compressed_json_and_jsonl_named_json_are_refused(
    tmp_path: Path, names: tuple[str, ...], data: bytes, code: str, command: str
) -> None:
    root = a_folder(tmp_path / "raw", dict.fromkeys(names, data))
    source = root if len(names) > 1 else f"{root}/{names[0]}"

    for dest in (None, str(tmp_path / "made")):
        with pytest.raises(InputError) as caught:
            prepare(source, dest)
        assert (caught.value.code, f"`{command.format(root)}" in caught.value.hint) == (code, True)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.ndjson.gz", "a.json.gz"])
def test_compressed_jsonl_needs_destination(tmp_path: Path, name: str) -> None:
    lines = gzip.compress(b'{"text": "a"}\n{"text": "b"}\n')
    root = a_folder(tmp_path / "raw", {name: lines})

    for source in (root, f"{root}/{name}"):
        with pytest.raises(UsageError, match="missing DEST: wdsctl copies the samples of jsonl") as caught:
            prepare(source)
        assert caught.value.hint == f"`wdsctl prepare {source} DEST`"


def test_jsonl_that_names_media_needs_destination_or_stays_without_them(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {"a.jsonl": b'{"image": "x/0.jpg", "text": "a"}\n', "deep/x/0.jpg": b"x"})

    with pytest.raises(UsageError, match="missing DEST") as caught:
        prepare(f"{root}/a.jsonl")

    assert f"in place, without the media: `wdsctl prepare {root}/a.jsonl --from shards`" in caught.value.hint
    prepare(f"{root}/a.jsonl", None, PrepareRequest(from_format="shards", accept_type=True))


def test_json_per_image_is_recognised_as_raw_files(tmp_path: Path) -> None:
    files = {f"{i}.{name}": b'{"a": 1}\n' for i in range(3) for name in ("jpg", "json")}

    assert recognise_format(a_folder(tmp_path, files)).name == "folder"
