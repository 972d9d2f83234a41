"""The converted samples are those of the source: a source that changed is reported."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder, a_shard
from tests.core.conversions import content, convert_to
from tests.energon import VAL, an_energon_dataset
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.convert.sources import open_sources
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError, DatasetError, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.progress import SilentProgress
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.core.validate.validate import validate

LATER = 2_000_000_000  # seconds since 1970


def write_samples(path: Path, letter: bytes) -> None:
    """Writes samples with the same keys and sizes for every letter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(a_shard({f"{i}.txt": letter * 8 for i in range(4)}))


class ReleaseLockOnWait(SilentProgress):
    """Releases a lock when the conversion waits for it."""

    def __init__(self, lock_stack: ExitStack) -> None:
        self._lock_stack = lock_stack

    def note(self, message: str) -> None:
        if "waiting for another wdsctl" in message:
            self._lock_stack.close()


class ChangeSourceDuringWrite:
    """Changes the source when the conversion starts to write units."""

    def __init__(self, change: Any) -> None:
        self._change = change

    def phase(self, name: str, **_: Any) -> None:
        if name == "write":
            self._change()

    def advance(self, **_: Any) -> None: ...

    def note(self, message: str) -> None: ...


@pytest.mark.parametrize("form", ["shards", "folder"])
def test_source_that_changes_during_conversion_is_reported(tmp_path: Path, form: str) -> None:
    source = tmp_path / "a"
    path = source / ("x.tar" if form == "shards" else "0.txt")
    if form == "shards":
        write_samples(path, b"A")
        index(str(source))
    else:
        a_folder(source, {f"{i}.txt": b"A" for i in range(4)})
    before = path.read_bytes()
    stat = path.stat()

    def change() -> None:
        path.write_bytes(before.replace(b"A", b"B"))
        os.utime(path, (LATER, LATER))

    with pytest.raises(DatasetError) as caught:
        convert([str(source)], str(tmp_path / "b"), ConvertRequest(), progress=ChangeSourceDuringWrite(change))
    assert caught.value.code == "WDS202"

    # Units written from the changed source are not reused when the source is restored.
    path.write_bytes(before)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    report = convert_to(tmp_path / "b", str(source))
    assert (report.written_files, report.kept_files) == (1, 0)
    assert b"B" not in (tmp_path / "b" / "shard-000000.tar").read_bytes()


def test_lock_of_temporary_catalog_is_waited_for(tmp_path: Path) -> None:
    write_samples(tmp_path / "a" / "x.tar", b"A")
    work = tmp_path / "work"
    with ExitStack() as lock_stack:
        lock_stack.enter_context(hold_lock(str(work / "source-0" / "lock")))
        with pytest.raises(CatalogError, match="another wdsctl"):
            open_sources([str(tmp_path / "a")], ConvertRequest(), str(work), SilentProgress())
        options = ConvertRequest(wait=60)
        with closing(
            open_sources([str(tmp_path / "a")], options, str(work), ReleaseLockOnWait(lock_stack))
        ) as open_set:
            assert len(open_set.sources) == 1


def test_same_sized_samples_with_other_content_are_other_source(tmp_path: Path) -> None:
    source = tmp_path / "a"
    write_samples(source / "x.tar", b"A")
    index(str(source))
    convert_to(tmp_path / "b", str(source))
    write_samples(source / "x.tar", b"B")
    os.utime(source / "x.tar", (LATER, LATER))
    index(str(source))

    with pytest.raises(UsageError) as caught:
        convert_to(tmp_path / "b", str(source))
    assert caught.value.code == "WDS345"


def test_polylithic_store_that_differs_from_catalog_is_refused(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"x.tar": {f"{i}.{part}": b"A" * 600 for i in "ab" for part in ("jpg", "txt")}})
    convert_to(tmp_path / "b", source, layout="polylithic", media=("jpg",))
    path = tmp_path / "b" / "media" / "shard-000000.tar"
    path.write_bytes(a_shard({f"{i}.jpg": b"B" * 600 for i in "zb"}))
    os.utime(path, (LATER, LATER))

    with pytest.raises(DatasetError) as caught:
        convert_to(tmp_path / "c", str(tmp_path / "b"))
    assert caught.value.code == "WDS344"


def test_recomputed_splits_are_other_source(tmp_path: Path) -> None:
    source = tmp_path / "a"
    write_samples(source / "x.tar", b"A")
    prepare(str(source), None, PrepareRequest(accept_type=True, split={"train": 1, "val": 1}, split_by="sample"))
    convert_to(tmp_path / "b", str(source))
    repeated = PrepareRequest(
        accept_type=True, split={"train": 3, "val": 1}, split_by="sample", allow_split_changes=True
    )
    prepare(str(source), None, repeated)

    with pytest.raises(UsageError) as caught:
        convert_to(tmp_path / "b", str(source))
    assert caught.value.code == "WDS345"


def test_relative_and_absolute_path_are_same_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_folder(tmp_path / "a", {"1.jpg": b"one", "rows.csv": b"file,label\n1.jpg,x\n"})
    monkeypatch.chdir(tmp_path)

    assert convert_to(tmp_path / "b", "a/rows.csv").samples == 1
    assert convert_to(tmp_path / "b", str(tmp_path / "a" / "rows.csv")).up_to_date


def make_questions(root: Path) -> str:
    """Lines whose lists name entries of the store `media` next to them, in two splits."""
    prepare(
        a_dataset(root / "media", {"0.tar": {f"{i}.jpg": b"%d" % i for i in range(10)}}),
        request=PrepareRequest(accept_type=True),
    )
    lines = [{"id": f"q{i}", "images": [f"{i}.jpg"], "text": "?"} for i in range(10)]
    (root / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = PrepareRequest(
        accept_type=True, split={"train": 8, "val": 2}, split_by="sample", index=IndexRequest(key="id")
    )
    prepare(str(root / "lines.jsonl"), None, options)
    return str(root / "lines.jsonl")


def read_part_counts(root: Path) -> dict[str, int]:
    with Catalog.open(locate(str(root)).catalog_path) as catalog:
        return {part.name: part.samples for part in catalog.parts()}


def test_monolithic_layout_resolves_media_by_reference_rules(tmp_path: Path) -> None:
    source = make_questions(tmp_path)
    validate(source, ValidateRequest(levels=("refs",), refs=(("images", str(tmp_path / "media")),)))

    complete = convert_to(tmp_path / "whole", source, layout="monolithic")
    val = convert_to(tmp_path / "val", source, layout="monolithic", split="val")

    assert (complete.samples, complete.failed, complete.sources[0].form) == (10, 0, "polylithic")
    assert read_part_counts(tmp_path / "whole") == {"json": 10, "0.jpg": 10}
    assert complete.datasets[0].splits == {"train": 8, "val": 2}
    assert val.datasets[0].splits == {"val": 2}
    with pytest.raises(UsageError, match="no store for the media of image"):
        convert_to(tmp_path / "other", source, layout="monolithic", format_options={"media": "image"})


def test_monolithic_layout_without_known_stores_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no media .* and names no stores") as caught:
        convert_to(tmp_path / "whole", make_questions(tmp_path), layout="monolithic")

    assert "-O media=FIELD" in caught.value.hint
    assert not (tmp_path / "whole").exists()
    assert convert_to(tmp_path / "media2", str(tmp_path / "media"), layout="monolithic").samples == 10


def test_compressed_tars_next_to_catalog_shards_are_converted(tmp_path: Path) -> None:
    source = make_mixed_dataset(tmp_path / "a")

    report = convert_to(tmp_path / "b", source)
    repeated = convert_to(tmp_path / "b", source)

    assert [(outcome.form, outcome.rejected) for outcome in report.sources] == [("shards", ()), ("packed", ())]
    assert (report.samples, report.findings, repeated.up_to_date) == (8, (), True)
    assert report.datasets[0].splits == {"train": 4}
    assert any("4 of 8 samples are in no split" in note for note in report.notes)


def test_skipped_compressed_tars_are_reported(tmp_path: Path) -> None:
    source = make_mixed_dataset(tmp_path / "a")
    (tmp_path / "a" / "c.tar.zst").write_bytes(b"")

    outcome = convert_to(tmp_path / "b", source, from_format="shards")
    with_damaged = convert_to(tmp_path / "c", source)
    selected = convert_to(tmp_path / "d", source, split="train")

    assert [(finding.code, finding.severity) for finding in outcome.findings] == [("WDS113", "error")] * 2
    assert [(finding.code, finding.shard) for finding in with_damaged.findings] == [("WDS102", "c.tar.zst")]
    assert (outcome.samples, with_damaged.samples, selected.samples, selected.findings) == (4, 8, 4, ())


@pytest.mark.parametrize(("form", "option"), [("packed", "files"), ("polylithic", "refs")])
def test_internal_importer_options_are_refused(tmp_path: Path, form: str, option: str) -> None:
    source = make_mixed_dataset(tmp_path / "a")

    with pytest.raises(UsageError, match=f"{form} has no option"):
        convert_to(tmp_path / "b", source, from_format=form, format_options={option: "x"})


def make_mixed_dataset(root: Path) -> str:
    """A prepared shard, and a compressed one that was added later."""
    write_samples(root / "a.tar", b"A")
    prepare(str(root), request=PrepareRequest(accept_type=True))
    compressed = gzip.compress(a_shard({f"p{i}.txt": b"p" for i in range(4)}))
    (root / "b.tar.gz").write_bytes(compressed)
    return str(root)


def test_settings_of_energon_are_copied_as_after_index(tmp_path: Path) -> None:
    indexed = an_energon_dataset(tmp_path / "indexed")
    index(indexed)
    fresh = an_energon_dataset(tmp_path / "fresh")

    for name, source in (("a", indexed), ("b", fresh)):
        convert_to(tmp_path / name, source)
    convert_to(tmp_path / "val", fresh, split="val")

    configs = [(tmp_path / name / ".wdsctl" / "dataset.yaml").read_text() for name in ("a", "b")]
    assert configs[0] == configs[1]
    assert "sample_type: CaptioningSample" in configs[1]
    assert 'keys: {train: "splits/train-' in configs[1]
    assert sorted({name.partition(".")[0] for name in content(tmp_path / "val")}) == VAL


def test_compressed_tars_that_energon_split_are_refused(tmp_path: Path) -> None:
    """Otherwise, validation samples become training samples."""
    source = Path(an_energon_dataset(tmp_path / "a"))
    for shard in list((source / "parts").iterdir()):
        shard.with_suffix(".tgz").write_bytes(gzip.compress(shard.read_bytes()))
        shard.unlink()

    with pytest.raises(InputError, match=r"splits and excludes of \.nv-meta name compressed tars"):
        convert_to(tmp_path / "b", source)
    (source / ".nv-meta" / "split.yaml").unlink()
    convert_to(tmp_path / "b", source)

    assert "sample_type: CaptioningSample" in (tmp_path / "b" / ".wdsctl" / "dataset.yaml").read_text()
