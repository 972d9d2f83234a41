"""Reports of the commands for tests of the renderers: a dataset of 5,029 shards."""

from __future__ import annotations

from wdsctl.core.catalog.totals import PartCount, SplitCount
from wdsctl.core.errors import Finding
from wdsctl.core.index.index import IndexReport
from wdsctl.core.inspect.inspect import InspectedShard, InspectReport, PartSummary, SampleSummary
from wdsctl.core.prepare.prepare import PrepareReport
from wdsctl.core.prepare.write import FolderReport
from wdsctl.core.samples.detect import Detection, RejectedSampleType
from wdsctl.core.split.split import SplitReport
from wdsctl.core.validate.validate import ValidateReport

GIB = 1 << 30

TRUNCATED = Finding(
    code="WDS102",
    severity="error",
    message="it ends in a member",
    shard="deep/train-000017.tar",
    key="a/0042",
    part="jpg",
    offset=73_822_720,
)
SHARED_KEY = Finding(
    code="WDS106", severity="warning", message="keys that occur in several shards", key="a/0042", count=1204
)
DIRECTORY = Finding(code="WDS111", severity="note", message="directories", shard="x.tar", count=3)
FINDINGS = (SHARED_KEY, DIRECTORY, TRUNCATED)

DETECTION = Detection(
    sample_type="CaptioningSample",
    field_map={"image": "jpg", "caption": "json[caption]"},
    confidence=0.97,
    reasons=("1,000 of 1,000 samples have an image in jpg",),
    rejected=(RejectedSampleType("VQASample", "no question in json"),),
    kinds={"jpg": "image/jpeg", "json": "object"},
)


def an_index_report(**changes: object) -> IndexReport:
    facts: dict[str, object] = {
        "root": "shards",
        "catalog": "shards/.wdsctl/catalog.sqlite",
        "generation": 3,
        "shards": 5029,
        "samples": 1_204_332,
        "parts": 2_408_664,
        "size_bytes": 40 * GIB,
        "added": 12,
        "changed": 1,
        "removed": 0,
        "unchanged": 5016,
        "findings": (),
        "up_to_date": False,
        "dry_run": False,
        "seconds": 41.2,
    }
    return IndexReport(**(facts | changes))  # type: ignore[arg-type]


def a_split_report(**changes: object) -> SplitReport:
    facts: dict[str, object] = {
        "root": "shards",
        "by": "shard",
        "seed": 0,
        "splits": (
            SplitCount(name="train", share=8.0, shards=4023, samples=963_465),
            SplitCount(name="val", share=2.0, shards=1006, samples=240_867),
        ),
        "dry_run": False,
    }
    return SplitReport(**(facts | changes))  # type: ignore[arg-type]


def an_inspect_report(**changes: object) -> InspectReport:
    shards = tuple(
        InspectedShard(path=f"deep/train-{i:06}.tar", samples=10_000, size_bytes=GIB, status="ok") for i in range(12)
    )
    preview = PartSummary(name="jpg", size_bytes=16_384, preview="640x480 JPEG RGB")
    facts: dict[str, object] = {
        "root": "shards",
        "catalog": "shards/.wdsctl/catalog.sqlite",
        "catalog_bytes": 112 << 20,
        "generation": 3,
        "sample_type": "CaptioningSample",
        "field_map": {"image": "jpg", "caption": "json[caption]"},
        "shards": 5029,
        "samples": 1_204_332,
        "size_bytes": 40 * GIB,
        "statuses": {"ok": 5029},
        "looked_at": 5029,
        "parts": (
            PartCount(name="jpg", samples=1_204_332, share=1.0, size_bytes=39 * GIB, empty=0),
            PartCount(name="seg.png", samples=120, share=0.0001, size_bytes=39 << 20, empty=2),
        ),
        "splits": a_split_report().splits,
        "shard_list": shards,
        "first": (SampleSummary(key="a/0001", shard="deep/train-000000.tar", parts=(preview,)),),
        "stale": (),
    }
    return InspectReport(**(facts | changes))  # type: ignore[arg-type]


def a_validate_report(**changes: object) -> ValidateReport:
    facts: dict[str, object] = {
        "root": "shards",
        "shards": 5029,
        "samples": 1_204_332,
        "size_bytes": 40 * GIB,
        "findings": FINDINGS,
        "seconds": 73.0,
    }
    return ValidateReport(**(facts | changes))  # type: ignore[arg-type]


def a_folder_report(**changes: object) -> FolderReport:
    facts: dict[str, object] = {
        "source": "photos",
        "dest": "shards",
        "parts": ("jpg", "json"),
        "incomplete": 3,
        "strays": 2,
        "unreadable": 0,
        "ignored": 0,
        "examples": ("a/0042: no json", "b/stray", "c: no jpg", "d: no jpg"),
        "shards": 5029,
        "samples": 1_204_332,
        "size_bytes": 40 * GIB,
        "written": 12,
        "written_bytes": GIB,
        "kept": 5017,
        "added": 0,
        "vanished": 0,
        "stale": 0,
        "dropped": (),
        "dry_run": False,
    }
    return FolderReport(**(facts | changes))  # type: ignore[arg-type]


def a_prepare_report(**changes: object) -> PrepareReport:
    facts: dict[str, object] = {
        "source": "photos",
        "dest": "shards",
        "from_folder": True,
        "folder": a_folder_report(),
        "index": an_index_report(),
        "detection": DETECTION,
        "split": a_split_report(),
        "up_to_date": False,
        "dry_run": False,
    }
    return PrepareReport(**(facts | changes))  # type: ignore[arg-type]
