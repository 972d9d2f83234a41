"""That what is converted is what was meant: sources that are not what they were are told."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder, a_shard
from tests.core.conversions import to
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.convert.sources import open_sources
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError, DatasetError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.progress import SilentProgress
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.core.validate.validate import validate

LATER = 2_000_000_000  # seconds since 1970


def written(path: Path, letter: bytes) -> None:
    """Samples of the same keys and sizes, whatever the letter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(a_shard({f"{i}.txt": letter * 8 for i in range(4)}))


class Handed(SilentProgress):
    """Lets go of a lock when its holder is waited for."""

    def __init__(self, held: ExitStack) -> None:
        self._held = held

    def note(self, message: str) -> None:
        if "waiting for another wdsctl" in message:
            self._held.close()


class Meanwhile:
    """Listens, and writes to the source when units are about to be written."""

    def __init__(self, change: Any) -> None:
        self._change = change

    def phase(self, name: str, **_: Any) -> None:
        if name == "write":
            self._change()

    def advance(self, **_: Any) -> None: ...

    def note(self, message: str) -> None: ...


@pytest.mark.parametrize("form", ["shards", "folder"])
def test_a_source_that_changes_while_it_is_converted_is_told(tmp_path: Path, form: str) -> None:
    source = tmp_path / "a"
    path = source / ("x.tar" if form == "shards" else "0.txt")
    if form == "shards":
        written(path, b"A")
        index(str(source))
    else:
        a_folder(source, {f"{i}.txt": b"A" for i in range(4)})
    before = path.read_bytes()
    stat = path.stat()

    def change() -> None:
        path.write_bytes(before.replace(b"A", b"B"))
        os.utime(path, (LATER, LATER))

    with pytest.raises(DatasetError) as caught:
        convert([str(source)], str(tmp_path / "b"), ConvertRequest(), progress=Meanwhile(change))
    assert caught.value.code == "WDS202"

    # What was written of it is not taken for good when the source is as it was.
    path.write_bytes(before)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    report = to(tmp_path / "b", str(source))
    assert (report.written_files, report.kept_files) == (1, 0)
    assert b"B" not in (tmp_path / "b" / "shard-000000.tar").read_bytes()


def test_a_catalog_made_for_a_conversion_is_waited_for_as_the_destination_is(tmp_path: Path) -> None:
    written(tmp_path / "a" / "x.tar", b"A")
    work = tmp_path / "work"
    with ExitStack() as held:
        held.enter_context(hold_lock(str(work / "source-0" / "lock")))
        with pytest.raises(CatalogError, match="another wdsctl"):
            open_sources([str(tmp_path / "a")], ConvertRequest(), str(work), SilentProgress())
        options = ConvertRequest(wait=60)
        with closing(open_sources([str(tmp_path / "a")], options, str(work), Handed(held))) as opened:
            assert len(opened.sources) == 1


def test_other_samples_of_the_same_sizes_are_another_source(tmp_path: Path) -> None:
    source = tmp_path / "a"
    written(source / "x.tar", b"A")
    index(str(source))
    to(tmp_path / "b", str(source))
    written(source / "x.tar", b"B")
    os.utime(source / "x.tar", (LATER, LATER))
    index(str(source))

    with pytest.raises(UsageError) as caught:
        to(tmp_path / "b", str(source))
    assert caught.value.code == "WDS345"


def test_a_store_that_is_not_what_its_catalog_says_is_refused(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"x.tar": {f"{i}.{part}": b"A" * 600 for i in "ab" for part in ("jpg", "txt")}})
    to(tmp_path / "b", source, layout="polylithic", media=("jpg",))
    path = tmp_path / "b" / "media" / "shard-000000.tar"
    path.write_bytes(a_shard({f"{i}.jpg": b"B" * 600 for i in "zb"}))
    os.utime(path, (LATER, LATER))

    with pytest.raises(DatasetError) as caught:
        to(tmp_path / "c", str(tmp_path / "b"))
    assert caught.value.code == "WDS344"


def test_splits_that_were_made_anew_are_another_source(tmp_path: Path) -> None:
    source = tmp_path / "a"
    written(source / "x.tar", b"A")
    prepare(str(source), None, PrepareRequest(take_unsure=True, split={"train": 1, "val": 1}, split_by="sample"))
    to(tmp_path / "b", str(source))
    again = PrepareRequest(take_unsure=True, split={"train": 3, "val": 1}, split_by="sample", may_move=True)
    prepare(str(source), None, again)

    with pytest.raises(UsageError) as caught:
        to(tmp_path / "b", str(source))
    assert caught.value.code == "WDS345"


def test_a_source_by_a_relative_path_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_folder(tmp_path / "a", {"1.jpg": b"one", "rows.csv": b"file,label\n1.jpg,x\n"})
    monkeypatch.chdir(tmp_path)

    assert to(tmp_path / "b", "a/rows.csv").samples == 1
    assert to(tmp_path / "b", str(tmp_path / "a" / "rows.csv")).up_to_date


def questions(root: Path) -> str:
    """Lines that name entries of the store `media` beside them in a list, in two splits."""
    prepare(
        a_dataset(root / "media", {"0.tar": {f"{i}.jpg": b"%d" % i for i in range(10)}}),
        request=PrepareRequest(take_unsure=True),
    )
    lines = [{"id": f"q{i}", "images": [f"{i}.jpg"], "text": "?"} for i in range(10)]
    (root / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = PrepareRequest(
        take_unsure=True, split={"train": 8, "val": 2}, split_by="sample", index=IndexRequest(key="id")
    )
    prepare(str(root / "lines.jsonl"), None, options)
    return str(root / "lines.jsonl")


def parts(root: Path) -> dict[str, int]:
    with Catalog(locate(str(root)).catalog) as catalog:
        return {part.name: part.samples for part in catalog.parts()}


def test_a_primary_that_becomes_monolithic_gets_the_media_that_its_rules_name(tmp_path: Path) -> None:
    source = questions(tmp_path)
    validate(source, ValidateRequest(levels=("refs",), refs=(("images", str(tmp_path / "media")),)))

    whole = to(tmp_path / "whole", source, layout="monolithic")
    val = to(tmp_path / "val", source, layout="monolithic", split="val")

    assert (whole.samples, whole.failed, whole.sources[0].form) == (10, 0, "polylithic")
    assert parts(tmp_path / "whole") == {"json": 10, "0.jpg": 10}
    assert whole.datasets[0].splits == {"train": 8, "val": 2}
    assert val.datasets[0].splits == {"val": 2}
    with pytest.raises(UsageError, match="no store for the media of image"):
        to(tmp_path / "other", source, layout="monolithic", format_options={"media": "image"})


def test_a_primary_whose_media_nobody_knows_does_not_become_monolithic(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no media .* and names no stores") as refused:
        to(tmp_path / "whole", questions(tmp_path), layout="monolithic")

    assert "-O media=FIELD" in refused.value.hint
    assert not (tmp_path / "whole").exists()
    assert to(tmp_path / "media2", str(tmp_path / "media"), layout="monolithic").samples == 10


def test_compressed_tars_beside_the_shards_of_a_catalog_are_taken_with_them(tmp_path: Path) -> None:
    source = beside(tmp_path / "a")

    report = to(tmp_path / "b", source)
    again = to(tmp_path / "b", source)

    assert [(told.form, told.rejected) for told in report.sources] == [("shards", ()), ("packed", ())]
    assert (report.samples, report.findings, again.up_to_date) == (8, (), True)
    assert report.datasets[0].splits == {"train": 4}
    assert any("4 of 8 samples are in no split" in note for note in report.notes)


def test_compressed_tars_that_are_not_taken_are_told(tmp_path: Path) -> None:
    source = beside(tmp_path / "a")
    (tmp_path / "a" / "c.tar.zst").write_bytes(b"")

    told = to(tmp_path / "b", source, from_format="shards")
    unread = to(tmp_path / "c", source)
    chosen = to(tmp_path / "d", source, split="train")

    assert [(found.code, found.severity) for found in told.findings] == [("WDS113", "error")] * 2
    assert [(found.code, found.shard) for found in unread.findings] == [("WDS102", "c.tar.zst")]
    assert (told.samples, unread.samples, chosen.samples, chosen.findings) == (4, 8, 4, ())


@pytest.mark.parametrize(("form", "option"), [("packed", "files"), ("polylithic", "refs")])
def test_what_the_engine_tells_an_importer_cannot_be_asked_for(tmp_path: Path, form: str, option: str) -> None:
    source = beside(tmp_path / "a")

    with pytest.raises(UsageError, match=f"{form} has no option"):
        to(tmp_path / "b", source, from_format=form, format_options={option: "x"})


def beside(root: Path) -> str:
    """A prepared shard, and a compressed one beside it that came later."""
    written(root / "a.tar", b"A")
    prepare(str(root), request=PrepareRequest(take_unsure=True))
    packed = gzip.compress(a_shard({f"p{i}.txt": b"p" for i in range(4)}))
    (root / "b.tar.gz").write_bytes(packed)
    return str(root)
