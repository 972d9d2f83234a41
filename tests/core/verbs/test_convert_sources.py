"""That what is converted is what was meant: sources that are not what they were are told."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder, a_shard
from wdsctl.core.errors import CatalogError, DatasetError, UsageError
from wdsctl.core.lock import locked
from wdsctl.core.progress import Silent
from wdsctl.core.verbs.convert import convert
from wdsctl.core.verbs.convert_report import ConvertOptions
from wdsctl.core.verbs.convert_sources import open_sources
from wdsctl.core.verbs.index import index
from wdsctl.core.verbs.prepare import PrepareOptions, prepare

LATER = 2_000_000_000  # seconds since 1970


def to(dest: Path, source: str, **options: Any) -> Any:
    return convert([source], str(dest), ConvertOptions(**options))


def written(path: Path, letter: bytes) -> None:
    """Samples of the same keys and sizes, whatever the letter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(a_shard({f"{i}.txt": letter * 8 for i in range(4)}))


class Handed(Silent):
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
        convert([str(source)], str(tmp_path / "b"), ConvertOptions(), progress=Meanwhile(change))
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
        held.enter_context(locked(str(work / "source-0" / "lock")))
        with pytest.raises(CatalogError, match="another wdsctl"):
            open_sources([str(tmp_path / "a")], ConvertOptions(), str(work), Silent(), workers=1)
        options = ConvertOptions(wait=60)
        with closing(open_sources([str(tmp_path / "a")], options, str(work), Handed(held), workers=1)) as opened:
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
    prepare(str(source), None, PrepareOptions(split={"train": 1, "val": 1}, split_by="sample"))
    to(tmp_path / "b", str(source))
    prepare(str(source), None, PrepareOptions(split={"train": 3, "val": 1}, split_by="sample"))

    with pytest.raises(UsageError) as caught:
        to(tmp_path / "b", str(source))
    assert caught.value.code == "WDS345"


def test_a_source_by_a_relative_path_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_folder(tmp_path / "a", {"1.jpg": b"one", "rows.csv": b"file,label\n1.jpg,x\n"})
    monkeypatch.chdir(tmp_path)

    assert to(tmp_path / "b", "a/rows.csv").samples == 1
    assert to(tmp_path / "b", str(tmp_path / "a" / "rows.csv")).up_to_date
