"""Every format reads the same samples from remote storage as from a disk."""

from __future__ import annotations

import bz2
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_dataset, a_folder, a_shard, an_image, samples
from tests.core.formats import Samples, describe_source, description_findings, read_samples, write_unit
from tests.core.importers.annotations.test_coco import a_whole_coco
from tests.core.importers.annotations.test_speech import a_librispeech, an_ljspeech
from tests.core.importers.annotations.test_voc import a_voc
from tests.core.importers.annotations.test_yolo import SPLIT
from tests.core.importers.folders.test_partfolders import some_pairs
from tests.core.importers.folders.test_scenes import some_scenes
from tests.core.importers.test_wids import an_index
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.errors import StorageDown
from wdsctl.core.importers.protocol import DescribedSource
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.storage.source_files import forget_listings

GOLDEN = Path(__file__).parents[2] / "golden" / "forms"
SAMPLES: Samples = {f"s/{i}": {"jpg": an_image("JPEG"), "txt": b"%d" % i} for i in range(5)}
PICTURES = {f"images/{i}.jpg": an_image("JPEG") + b"%d" % i for i in range(4)}
ROWS = [{"image": f"{i}.jpg", "text": f"é {i}", "n": i} for i in range(4)]
TALKS = [
    {
        "id": f"t{i}",
        "image": f"{i}.jpg",
        "conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": f"{i}"}],
    }
    for i in range(4)
]


def a_table(root: Path, name: str, text: str) -> str:
    return a_folder(root, {name: text.encode(), **PICTURES})


def a_delimited_table(root: Path, name: str, mark: str) -> str:
    rows = [mark.join(("image", "label")), *(mark.join((f"images/{i}.jpg", f"class {i}")) for i in range(4))]
    return a_table(root, name, "\n".join(rows) + "\n")


def a_parquet_table(root: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    a_folder(root, PICTURES)
    pq.write_table(pa.Table.from_pylist(ROWS), root / "rows.parquet", row_group_size=2)
    return str(root)


def a_compressed_tar(root: Path, name: str, pack: Callable[[bytes], bytes]) -> str:
    return a_folder(root, {name: pack(a_shard(samples(0, 3)))})


def make_listed_shards(root: Path) -> str:
    a_dataset(root, {"b.tar": samples(10, 3), "s/a.tar": samples(0, 2)})
    an_index(root, {"url": "s/a.tar", "nsamples": 2}, {"url": "b.tar"})
    return str(root)


def copy_golden(name: str) -> Callable[[Path], str]:
    return lambda root: str(shutil.copytree(GOLDEN / name, root))


#: Format -> the path of its source below the folder, and the function that makes the folder.
SOURCES: dict[str, tuple[str, Callable[[Path], str]]] = {
    "folder": ("", lambda root: a_folder(root, {f"d/{key}": data for key, data in samples(0, 5).items()})),
    "imagefolder": (
        "",
        lambda root: a_folder(root, {f"train/{c}/{c}{i}.jpg": b"%d" % i for c in "ab" for i in range(3)}),
    ),
    "csv folder": ("", lambda root: a_delimited_table(root, "labels.csv", ",")),
    "csv file": ("labels.csv", lambda root: a_delimited_table(root, "labels.csv", ",")),
    "tsv file": ("labels.tsv", lambda root: a_delimited_table(root, "labels.tsv", "\t")),
    "jsonl file": ("rows.jsonl", lambda root: a_table(root, "rows.jsonl", "\n".join(map(json.dumps, ROWS)))),
    "jsonl folder": ("", lambda root: a_table(root, "rows.jsonl", "\n".join(map(json.dumps, ROWS)))),
    "json file": ("rows.json", lambda root: a_table(root, "rows.json", json.dumps(ROWS))),
    "llava file": ("talks.json", lambda root: a_table(root, "talks.json", json.dumps(TALKS))),
    "llava folder": ("", lambda root: a_table(root, "talks.json", json.dumps(TALKS))),
    "parquet file": ("rows.parquet", a_parquet_table),
    "parquet folder": ("", a_parquet_table),
    "parquet export": ("", lambda root: write_unit(root, "parquet", SAMPLES)),
    "jsonl export": ("", lambda root: write_unit(root, "jsonl", SAMPLES)),
    "coco": ("", a_whole_coco),
    "yolo": ("", lambda root: a_folder(root, SPLIT)),
    "yolo file": ("data.yaml", lambda root: a_folder(root, SPLIT)),
    "voc": ("", a_voc),
    "librispeech": ("", a_librispeech),
    "ljspeech": ("", an_ljspeech),
    "scenes": ("", lambda root: some_scenes(root, "", "rgb.jpg", "depth.png")),
    "partfolders": ("", some_pairs),
    "partfolders by words": ("", lambda root: some_pairs(root, "train/{}.jpg", "train_masks/mask_{}.png")),
    "partnames": ("", lambda root: some_pairs(root, "{}.jpg", "{}_mask.png")),
    "huggingface": ("", copy_golden("huggingface")),
    "litdata": ("", copy_golden("litdata")),
    "litdata-zstd": ("", copy_golden("litdata-zstd")),
    "mds": ("", lambda root: write_unit(root, "mds", SAMPLES)),
    "gzipped tar": ("", lambda root: a_compressed_tar(root, "d/a.tar.gz", gzip.compress)),
    "bzipped tar": ("a.tar.bz2", lambda root: a_compressed_tar(root, "a.tar.bz2", bz2.compress)),
    "wids": ("index.json", make_listed_shards),
}


@pytest.fixture
def store(tmp_path: Path) -> str:
    FaultyFileSystem.reset()
    forget_listings()
    return f"memory://{tmp_path.name}"


@pytest.mark.parametrize("name", SOURCES)
def test_importer_reads_same_samples_from_remote_and_local_folder(name: str, store: str, tmp_path: Path) -> None:
    subpath, make = SOURCES[name]
    root = make(tmp_path / "raw")
    url = upload_shards(root, f"{store}/raw", "*.*")
    source, remote = (f"{place}/{subpath}".rstrip("/") for place in (root, url))

    assert importers.best_importer(remote)[0].name == importers.best_importer(source)[0].name
    assert read_samples(remote) == read_samples(source)
    if isinstance(importers.best_importer(source)[0].open(source, {}), DescribedSource):
        assert description_findings(remote) == description_findings(source)
        assert describe_source(remote).field_uses == describe_source(source).field_uses


def convert_into(url: str, dest: str, progress: RecordingProgress) -> None:
    convert([url], dest, progress=progress)


def prepare_into(url: str, dest: str, progress: RecordingProgress) -> None:
    prepare(url, dest, progress=progress)


@pytest.mark.parametrize("verb", [convert_into, prepare_into])
def test_store_that_does_not_respond_is_shown_and_gets_one_request(
    verb: Callable[[str, str, RecordingProgress], object], tmp_path: Path
) -> None:
    FaultyFileSystem.reset()
    forget_listings()
    url = upload_shards(a_folder(tmp_path / "raw", {"a/1.jpg": b"1"}), "faulty://raw", "*")
    FaultyFileSystem.denied.append(OSError("the region is wrong"))  # which wdsctl does not repeat
    progress = RecordingProgress()

    with pytest.raises(StorageDown):
        verb(url, str(tmp_path / "out"), progress)

    assert progress.phases == [("recognise", None, None)]
    assert len(FaultyFileSystem.metadata_requests) == 1
