"""Which format a path has, and why."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.build import a_folder
from wdsctl.core import importers
from wdsctl.core.convert import exporters
from wdsctl.core.errors import InputError, PermissionDenied, StorageError, UsageError
from wdsctl.core.storage.source_files import forget_listings

FORMS = Path(__file__).parents[2] / "golden" / "forms"


def test_every_listed_format_is_found_by_name() -> None:
    for name in importers.IMPORT_FORMATS:
        importer = importers.get_importer(name)
        assert importer.name == name
        assert importer.about
        assert not importer.about.endswith(".")
    for name in exporters.EXPORT_FORMATS:
        assert exporters.get_exporter(name).name == name


def test_unknown_format_error_names_known_formats() -> None:
    with pytest.raises(UsageError) as error:
        importers.get_importer("parqet")
    assert error.value.hint.startswith("did you mean parquet?")
    with pytest.raises(UsageError, match="cannot write the format 'tfrecord'"):
        exporters.get_exporter("tfrecord")


@pytest.mark.parametrize("name", ["mds", "litdata"])
def test_best_importer_returns_format_and_reason(name: str) -> None:
    importer, recognised = importers.best_importer(str(FORMS / name))

    assert importer.name == name
    assert "index.json" in recognised.reason


def test_best_importer_asks_if_table_names_images_without_their_masks(tmp_path: Path) -> None:
    files = {
        f"{name}/{n}{end}": b"x" for n in range(4) for name, end in (("train", ".jpg"), ("train_masks", "_mask.gif"))
    }
    images = "img,rle_mask\n" + "".join(f"{n}.jpg,1 4\n" for n in range(4))
    both = "img,mask\n" + "".join(f"train/{n}.jpg,train_masks/{n}_mask.gif\n" for n in range(4))
    carvana = a_folder(tmp_path / "carvana", {**files, "train_masks.csv": images.encode()})
    named = a_folder(tmp_path / "named", {**files, "pairs.csv": both.encode()})

    with pytest.raises(InputError, match="several formats") as error:
        importers.best_importer(carvana)

    assert "csv: train_masks.csv names 4 of the folder's 8 files" in error.value.message
    assert "partfolders: train and train_masks have files of matching names" in error.value.message
    assert "the files in train and train_masks into columns of train_masks.csv" in error.value.hint
    assert importers.best_importer(named)[0].name == "csv"


def test_best_importer_refuses_workbooks_and_suggests_csv(tmp_path: Path) -> None:
    (tmp_path / "Labels.XLSX").write_bytes(b"PK\x03\x04")

    with pytest.raises(InputError, match="a workbook") as error:
        importers.best_importer(str(tmp_path / "Labels.XLSX"))

    assert "CSV" in error.value.hint


def test_best_importer_refuses_no_format_and_names_several(tmp_path: Path) -> None:
    nothing = a_folder(tmp_path / "n", {"README": b"hello"})
    both = a_folder(
        tmp_path / "b", {"index.json": b'{"shards": [".mds"], "chunks": [{"chunk_size": 1}], "x": "a.mds"}'}
    )

    with pytest.raises(InputError) as none:
        importers.best_importer(nothing)
    with pytest.raises(InputError) as several:
        importers.best_importer(both)

    assert none.value.code == several.value.code == "WDS235"
    assert "litdata: " in several.value.message
    assert "mds: " in several.value.message


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json", "t.parquet", "index.json"])
@pytest.mark.parametrize("data", [b"", b"\0\xff\x00", b"[", b"{", b'{"images"', b"PAR1", b'"'])
def test_recognise_never_raises_for_odd_input(tmp_path: Path, name: str, data: bytes) -> None:
    root = a_folder(tmp_path, {name: data})

    for path in (root, f"{root}/{name}", f"{root}/none", f"{root}/{name}/below"):
        for form in importers.IMPORT_FORMATS:
            if form not in ("shards", "packed", "polylithic"):
                importers.get_importer(form).recognise(path)


def test_best_importer_reports_missing_path(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        importers.best_importer(str(tmp_path / "none"))
    assert error.value.code == "WDS002"


def test_pipe_is_refused_by_best_importer_and_check_readable(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "rows.csv")

    for check in (importers.best_importer, importers.check_readable):
        with pytest.raises(InputError, match="neither a file nor a folder"):
            check(str(pipe))


def test_best_importer_reports_unreadable_folder_as_permission_denied(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    (closed := public_path / "closed").mkdir()
    closed.chmod(0o000)

    result = as_nobody(lambda: importers.best_importer(str(closed)))

    closed.chmod(0o700)
    assert isinstance(result, PermissionDenied)


class DeniedError(OSError):
    """Has weak references, as the builtin errors have not."""


class UnlistedFileSystem(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store whose lists fail, each with an error of its own."""

    protocol = "unlisted"
    errors: ClassVar[list[weakref.ref[Exception]]] = []

    def ls(self, *_: object, **__: object) -> None:
        error = DeniedError("denied")
        self.errors.append(weakref.ref(error))
        raise error


fsspec.register_implementation("unlisted", UnlistedFileSystem, clobber=True)


def test_find_importers_keeps_first_error_only() -> None:
    """An error's traceback holds what was read before it: 64 MiB of an answer without end."""
    forget_listings()

    with pytest.raises(StorageError) as raised:
        importers.find_importers("unlisted://raw/a")

    gc.collect()
    kept = [error for each in UnlistedFileSystem.errors if (error := each()) is not None]
    assert len(UnlistedFileSystem.errors) > 2
    assert kept == [raised.value.__cause__]
