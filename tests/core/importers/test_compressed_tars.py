from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.build import a_folder, a_shard, an_archive, samples
from wdsctl.core.errors import DatasetError, StorageError
from wdsctl.core.importers import compressed_tars as packed_module
from wdsctl.core.importers.compressed_tars import IMPORTER

LINK = tarfile.TarInfo("a.link")
LINK.type, LINK.linkname = tarfile.SYMTYPE, "/etc/passwd"


def compress_by_arrow(codec: str, data: bytes) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        ("tar.gz", gzip.compress),
        ("tgz", gzip.compress),
        ("tar.bz2", bz2.compress),
        ("tar.xz", lzma.compress),
        ("tar.zst", partial(compress_by_arrow, "zstd")),
        ("tar.lz4", partial(compress_by_arrow, "lz4")),
    ],
)
def test_compressed_tars_are_read_in_any_order(tmp_path: Path, ending: str, compress: Callable[[bytes], bytes]) -> None:
    files = {f"{i}.{ending}": compress(a_shard(samples(i * 3, 3))) for i in range(2)}
    root = a_folder(tmp_path / "a", files | {"plain.tar": a_shard(samples(9, 1))})
    match = IMPORTER.recognise(root)
    assert match is not None
    assert match.score > 0.95

    with IMPORTER.open(root, {}) as source:
        listed = list(source.list_samples())
        assert [each.key for each in listed] == [f"{i:06d}" for i in (*range(6), 9)]
        for order in (listed, listed[::-1]):
            for each in order:
                assert [part.data for part in source.read(each.sample_index)] == [
                    samples(int(each.key), 1)[f"{each.key}.{name}"] for name in ("jpg", "txt")
                ]


@pytest.mark.parametrize(
    ("folders", "split_names"),
    [(("train", "val_small"), ("train", "val_small")), (("train", "more"), ()), (("test", "val"), ())],
)
def test_compressed_tars_in_folders_named_like_splits_are_in_splits(
    tmp_path: Path, folders: tuple[str, str], split_names: tuple[str, ...]
) -> None:
    files = {f"{folder}/a.tar.gz": gzip.compress(a_shard(samples(i, 1))) for i, folder in enumerate(folders)}

    with IMPORTER.open(a_folder(tmp_path / "a", files), {}) as source:
        assert source.split_names == split_names
        assert [each.splits for each in source.list_samples()] == ([1, 2] if split_names else [0, 0])


def test_compressed_tars_skip_links_and_folders(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "a", {"0.tgz": gzip.compress(an_archive([LINK, tarfile.TarInfo("b.txt")]))})
    with IMPORTER.open(root, {}) as source:
        assert [(each.key, each.parts) for each in source.list_samples()] == [("b", (("txt", 0),))]


def test_members_of_compressed_tars_in_no_sample_are_reported(tmp_path: Path) -> None:
    names = ["README", "a.txt", "b/LICENSE", "c.txt"]
    data = gzip.compress(an_archive([LINK, *map(tarfile.TarInfo, names)]))
    root = a_folder(tmp_path / "a", {"0.tgz": data, "1.tgz": gzip.compress(a_shard(samples(0, 1)))})

    with IMPORTER.open(root, {}) as source:
        assert [each.key for each in source.list_samples()][:2] == ["a", "c"]
        found = [(each.code, each.severity, each.shard, each.count) for each in source.problems]
    assert sorted(found) == [("WDS112", "note", "0.tgz", 2), ("WDS118", "warning", "0.tgz", 1)]


def test_truncated_compressed_tar_is_reported_and_its_rest_unreadable(tmp_path: Path) -> None:
    whole = gzip.compress(a_shard({f"{i}.bin": bytes(range(256)) * 40 for i in range(50)}), 0)
    root = a_folder(tmp_path / "a", {"0.tar.gz": whole[: len(whole) // 2]})
    with IMPORTER.open(root, {}) as source:
        found = list(source.list_samples())
        assert 0 < len(found) < 50
        assert [problem.code for problem in source.problems] == ["WDS102"]
        with pytest.raises(StorageError):
            source.read(49)


def test_compressed_non_tar_is_not_recognised(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"0.tar": b"neither", "words.txt.gz": gzip.compress(b"words, and no tar")})

    assert IMPORTER.recognise(root) is None
    assert IMPORTER.recognise(f"{root}/words.txt.gz") is None


def test_part_larger_than_max_sample_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_module, "_MAX_SAMPLE_BYTES", 1000)
    files = {"a.bin": bytes(1001), "a.txt": b"1", "b.bin": bytes(1000)}
    root = a_folder(tmp_path, {"0.tar.gz": gzip.compress(a_shard(files))})

    with IMPORTER.open(root, {}) as source:
        with pytest.raises(DatasetError, match="more than"):
            source.read(0)
        assert source.read(1)[0].data == bytes(1000)
