"""A raw folder as a source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import held, refused
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import DatasetError


def test_files_that_share_a_name_are_one_sample(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"x", "a/1.seg.png": b"y", "b/2.jpg": b"", "b/2.seg.png": b"z"})

    assert importers.best_importer(root)[0].name == "folder"
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
    with importers.get_importer("folder").open(root, {}) as source:
        a_folder(tmp_path, {"1.jpg": b"xyz"})
        with pytest.raises(DatasetError) as error:
            source.read(0)
    assert error.value.code == "WDS202"


def test_the_mark_changes_with_the_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"1.jpg": b"x"})
    importer = importers.get_importer("folder")
    with importer.open(root, {}) as first:
        before = first.digest()
    a_folder(tmp_path, {"2.jpg": b"x"})
    with importer.open(root, {}) as second:
        assert second.digest() != before


@pytest.mark.parametrize(("policy", "done"), [("skip", "left out"), ("keep", "only existing parts were used")])
def test_what_an_option_leaves_out_is_told(tmp_path: Path, policy: str, done: str) -> None:
    root = a_folder(tmp_path / "raw", {"1.jpg": b"x", "1.txt": b"y", "2.jpg": b"x", "3.jpg": b"x", "3.txt": b"y"})

    report = convert([root], str(tmp_path / "made"), ConvertRequest(format_options={"on-missing": policy}))

    (found,) = report.findings
    assert (found.code, found.severity) == ("WDS201", "warning")
    assert found.message == f"1 incomplete sample (such as 2: no txt): {done}"
