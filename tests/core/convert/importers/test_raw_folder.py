"""A raw folder as a source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.convert.forms import held, refused
from wdsctl.core.convert import importers
from wdsctl.core.errors import DatasetError
from wdsctl.core.verbs.convert import convert
from wdsctl.core.verbs.convert_report import ConvertOptions


def test_files_that_share_a_name_are_one_sample(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"x", "a/1.seg.png": b"y", "b/2.jpg": b"", "b/2.seg.png": b"z"})

    assert importers.best(root)[0].name == "folder"
    assert held(root) == {"a/1": {"jpg": b"x", "seg.png": b"y"}, "b/2": {"jpg": b"", "seg.png": b"z"}}


def test_incomplete_samples_follow_the_option(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"1.jpg": b"x", "1.txt": b"y", "2.jpg": b"x", "3.jpg": b"x", "3.txt": b"y"})

    assert refused(root).code == "WDS201"
    assert list(held(root, {"on-missing": "skip"})) == ["1", "3"]
    assert list(held(root, {"on-missing": "keep"})) == ["1", "2", "3"]
    assert list(held(root, {"parts": "jpg"})) == ["1", "2", "3"]
    assert refused(root, {"on-missing": "ignore"}).exit_code == 2


def test_a_file_that_grew_since_it_was_listed_is_not_cut(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"1.jpg": b"x"})
    with importers.get("folder").open(root, {}) as source:
        a_folder(tmp_path, {"1.jpg": b"xyz"})
        with pytest.raises(DatasetError) as error:
            source.read(0)
    assert error.value.code == "WDS202"


def test_the_mark_changes_with_the_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"1.jpg": b"x"})
    importer = importers.get("folder")
    with importer.open(root, {}) as first:
        before = first.mark()
    a_folder(tmp_path, {"2.jpg": b"x"})
    with importer.open(root, {}) as second:
        assert second.mark() != before


@pytest.mark.parametrize(("policy", "done"), [("skip", "left out"), ("keep", "only what there is was taken")])
def test_what_an_option_leaves_out_is_told(tmp_path: Path, policy: str, done: str) -> None:
    root = a_folder(tmp_path / "raw", {"1.jpg": b"x", "1.txt": b"y", "2.jpg": b"x", "3.jpg": b"x", "3.txt": b"y"})

    report = convert([root], str(tmp_path / "made"), ConvertOptions(form_options={"on-missing": policy}))

    (found,) = report.findings
    assert (found.code, found.severity) == ("WDS201", "warning")
    assert found.message == f"1 incomplete sample (such as 2: no txt): {done}"
