from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.build import a_dataset, an_image, samples
from tests.core.export.readers import reader, run_in
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportReport, ExportRequest
from wdsctl.core.index.index import index
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split.split import split_dataset

LOAD_SCRIPT = """
import itertools, json, sys
import mlcroissant
found = {}
for name in ("train-png", "train-txt", "splits"):
    dataset = mlcroissant.Dataset(sys.argv[1])  # one for each record set: it keeps those that it has begun
    found[name] = [
        {field: value.decode() if isinstance(value, bytes) else str(getattr(value, "size", value))
         for field, value in record.items()}
        for record in itertools.islice(dataset.records(name), 10)
    ]
print(json.dumps(found))
"""


def export_croissant(root: str) -> tuple[ExportReport, dict[str, Any]]:
    report = export(ExportRequest(root=root, target="croissant"))
    document: dict[str, Any] = json.loads(Path(root, "croissant.json").read_text())
    return report, document


def entries_of_type(document: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {each["@id"]: each for each in (*document["distribution"], *document["recordSet"]) if each["@type"] == kind}


def test_croissant_describes_shards_parts_and_splits(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {f"s-{i}.tar": samples(4 * i, 4, "jpg", "seg.jpg", "bin") for i in range(3)})
    index(root, hashed=True)
    split_dataset(root, parse_split_request(SplitOptions(pattern=("train=s-{0..1}.tar", "val=s-2.tar"))))
    report, document = export_croissant(root)
    assert document["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert all(len(each["sha256"]) == 64 for each in entries_of_type(document, "cr:FileObject").values())
    files = entries_of_type(document, "cr:FileSet")
    assert files["files-train-jpg"] == {
        "@type": "cr:FileSet",
        "@id": "files-train-jpg",
        "name": "jpg of train",
        "containedIn": [{"@id": "s-0.tar"}, {"@id": "s-1.tar"}],
        "includes": "*.jpg",
        "excludes": ["*.seg.jpg"],
        "encodingFormat": "image/jpeg",
    }
    records = entries_of_type(document, "cr:RecordSet")
    assert set(records) == {"splits", "train-jpg", "train-seg.jpg", "val-jpg", "val-seg.jpg"}
    assert records["splits"]["data"] == [
        {"splits/name": "train", "splits/samples": 8},
        {"splits/name": "val", "splits/samples": 4},
    ]
    assert any("no data type for bin" in note for note in report.notes)


def test_provenance_is_read_from_ledger_without_local_paths(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"a.tar": samples(0, 4)})
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=1", by="shard")))
    report, document = export_croissant(root)
    labels = [each["prov:label"] for each in document["prov:wasGeneratedBy"]]
    assert [label.split()[1] for label in labels] == ["index", "split"]
    assert str(tmp_path) not in json.dumps(document)
    assert any("1 shard without SHA-256" in note for note in report.notes)


def test_splits_within_shards_are_reported_and_all_samples_described(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"a.tar": samples(0, 30), "b.tar": samples(30, 30)})
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=1,val=1", by="sample")))
    report, document = export_croissant(root)
    assert set(entries_of_type(document, "cr:RecordSet")) == {"all-jpg", "all-txt"}
    assert "the document has no splits" in report.notes[0]


def test_mlcroissant_reads_ten_samples(tmp_path: Path) -> None:
    python = reader("mlcroissant")
    image = an_image("png")
    shards: dict[str, dict[str, bytes]] = {f"s-{n}.tar": {} for n in range(3)}
    for i in range(15):
        shards[f"s-{i // 5}.tar"] |= {f"d/{i:03d}.png": image, f"d/{i:03d}.txt": f"text {i}".encode()}
    root = a_dataset(tmp_path / "a", shards)
    index(root, hashed=True)
    split_dataset(root, parse_split_request(SplitOptions(pattern=("train=s-{0..1}.tar", "val=s-2.tar"))))
    export(ExportRequest(root=root, target="croissant"))
    loaded = json.loads(run_in(python, LOAD_SCRIPT, f"{root}/croissant.json", HOME=str(tmp_path)).splitlines()[-1])
    assert [each["train-txt/key"] for each in loaded["train-txt"]] == [f"d/{i:03d}" for i in range(10)]
    assert [each["train-txt/content"] for each in loaded["train-txt"]] == [f"text {i}" for i in range(10)]
    assert len({each["train-txt/png"] for each in loaded["train-txt"]}) == 1
    assert {each["train-png/key"] for each in loaded["train-png"]} == {f"d/{i:03d}" for i in range(10)}
    assert len({each["train-png/content"] for each in loaded["train-png"]}) == 1
    assert [each["splits/name"] for each in loaded["splits"]] == ["train", "val"]
