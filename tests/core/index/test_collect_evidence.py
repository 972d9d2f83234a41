from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.build import a_dataset, an_image, samples, some_shards
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.index.write_dataset_yaml import EVIDENCE_SAMPLES, EVIDENCE_SHARDS, collect_evidence
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.samples.detect import infer_sample_type
from wdsctl.core.samples.evidence import Evidence
from wdsctl.core.storage.storage import FileRange, LocalStorage

PICTURE = an_image("JPEG")


class RecordingStorage(LocalStorage):
    """A storage that records which ranges are read."""

    def __init__(self) -> None:
        super().__init__("/")
        self.ranges: list[FileRange] = []

    def read(self, path: str, offset: int, size: int) -> bytes:
        self.ranges.append(FileRange(path, offset, size))
        return super().read(path, offset, size)


def collect(root: str) -> tuple[Evidence, list[FileRange]]:
    index(root)
    place = locate(root)
    with Catalog.open(place.catalog_path) as catalog:
        parts = catalog.parts()
    storage = RecordingStorage()
    evidence = collect_evidence(root, Offsets(place.offsets_path(1)), parts, storage)
    storage.close()
    return evidence, storage.ranges


def test_collect_evidence_reads_few_samples_of_several_shards(tmp_path: Path) -> None:
    evidence, ranges = collect(some_shards(tmp_path, 50, 20))

    assert evidence.samples == 1000
    assert [(part.name, part.samples, len(part.heads)) for part in evidence.parts] == [
        ("jpg", 1000, EVIDENCE_SAMPLES),
        ("txt", 1000, EVIDENCE_SAMPLES),
    ]
    assert len({each.path for each in ranges}) == EVIDENCE_SHARDS
    assert ranges[0].path.endswith("shard-000.tar")
    assert ranges[-1].path.endswith("shard-049.tar")


def test_collect_evidence_reads_each_of_few_samples_once(tmp_path: Path) -> None:
    evidence, ranges = collect(a_dataset(tmp_path, {"a.tar": samples(0, 2), "b.tar": b"", "c.tar": samples(2, 1)}))

    assert [len(part.heads) for part in evidence.parts] == [3, 3]
    assert len(ranges) == len(set(ranges)) == 6


@pytest.mark.parametrize(("shards", "classes", "images"), [(1, 10, 12), (1, 1000, 3), (20, 1000, 3)])
def test_collect_evidence_shows_that_texts_are_class_names(
    tmp_path: Path, shards: int, classes: int, images: int
) -> None:
    labels = [label for label in range(classes) for _ in range(images)]
    numbers = np.array_split(np.arange(len(labels)), shards)
    root = a_dataset(
        tmp_path,
        {
            f"{shard:02}.tar": {
                f"{i:05}.{part}": value
                for i in some.tolist()
                for part, value in (
                    ("cls", str(labels[i]).encode()),
                    ("jpg", PICTURE),
                    ("txt", f"class {labels[i]}".encode()),
                )
            }
            for shard, some in enumerate(numbers)
        },
    )

    detection = infer_sample_type(collect(root)[0], is_jsonl=False)

    assert detection.field_map == {"image": "jpg", "label": "cls", "label_name": "txt"}


def test_collect_evidence_of_no_samples_is_empty(tmp_path: Path) -> None:
    assert collect(a_dataset(tmp_path, {"a.tar": b""})) == (Evidence(0, ()), [])


def test_collect_evidence_reads_json_whole_and_heads_of_other_parts(tmp_path: Path) -> None:
    text = json.dumps({"caption": "x" * 200_000}).encode()
    evidence, _ = collect(a_dataset(tmp_path, {"a.tar": {"1.json": text, "1.bin": bytes(200_000)}}))
    heads = {part.name: part.heads[0] for part in evidence.parts}

    assert heads["json"] == text
    assert len(heads["bin"]) == 1 << 16
    assert evidence.parts[0].sizes == (200_000 if evidence.parts[0].name == "bin" else len(text),)


def test_collect_evidence_covers_part_of_some_samples(tmp_path: Path) -> None:
    firsts = np.linspace(0, 998, EVIDENCE_SAMPLES // 2).astype(int).tolist()
    usual = {first + i for first in firsts for i in (0, 1)}
    with_wav = {i for i in range(1000) if i % 5 == 2} - usual
    members = {
        f"{i:03d}.{part}": b"x" for i in range(1000) for part in ("txt", "wav") if part == "txt" or i in with_wav
    }
    evidence, _ = collect(a_dataset(tmp_path, {"a.tar": members}))

    assert {part.name: len(part.heads) for part in evidence.parts} == {
        "txt": 2 * EVIDENCE_SAMPLES,
        "wav": EVIDENCE_SAMPLES,
    }


def test_collect_evidence_reads_no_more_samples_for_rare_part(tmp_path: Path) -> None:
    members = {f"{i:03d}.{part}": b"x" for i in range(100) for part in ("txt", "wav") if part == "txt" or i == 2}
    evidence, _ = collect(a_dataset(tmp_path, {"a.tar": members}))

    assert {part.name: len(part.heads) for part in evidence.parts} == {"txt": EVIDENCE_SAMPLES, "wav": 0}
