from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core.carried import COLUMNS, NUMBER, a_source, columns, media, of, told
from tests.core.conversions import to
from tests.killing import Moment, died
from wdsctl.core.columns.column_file import find_column
from wdsctl.core.convert.parts import parse_image
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_source(tmp_path_factory.mktemp("source") / "a")


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({"shard_samples": 5}, 12),
        ({"shard_samples": 5, "order": "shuffle", "seed": 3, "template": "s-{index}.tar", "workers": 2}, 12),
        ({"order": "key", "split": "val"}, 3),
        ({"where": "part = 'jpg' AND width >= 20"}, 8),
    ],
)
def test_every_sample_has_the_numbers_and_facts_that_it_had(
    tmp_path: Path, source: str, options: dict[str, Any], share: int
) -> None:
    report = to(tmp_path / "b", source, **options)

    found = columns(tmp_path / "b")
    keys = set(found["n"])
    assert len(keys) == share
    assert found == of(columns(source), keys)
    assert media(tmp_path / "b") == {f"{key}.jpg": media(source)[f"{key}.jpg"] for key in keys}
    assert (report.datasets[0].columns, report.datasets[0].media) == (tuple(sorted(COLUMNS)), share)
    assert told(report) == []


def test_what_went_along_is_not_worked_out_again(tmp_path: Path, source: str) -> None:
    to(tmp_path / "b", source, order="shuffle")

    report = index(str(tmp_path / "b"), columns=COLUMNS, media=MediaRequest(selection="auto"))

    assert [(each.name, each.state, each.shards_read) for each in report.columns] == [
        (name, "current", 0) for name in sorted(COLUMNS)
    ]
    assert report.media is not None
    assert (report.media.state, report.media.read) == ("current", 0)


def test_datasets_that_are_taken_apart_have_their_own(tmp_path: Path, source: str) -> None:
    report = to(tmp_path / "b", source, apart="split", shard_samples=4)

    before, after = columns(source), [columns(each.path) for each in report.datasets]
    assert sorted(key for found in after for key in found["n"]) == sorted(before["n"])
    assert all(found == of(before, set(found["n"])) for found in after)


@pytest.mark.parametrize("primary", ["tar", "jsonl"])
def test_through_a_polylithic_layout_and_back(tmp_path: Path, source: str, primary: Any) -> None:
    poly = tmp_path / "poly"
    report = to(poly, source, layout="polylithic", media=("jpg",), primary=primary, order="shuffle", shard_samples=5)
    back = to(tmp_path / "back", poly)

    kept = {"n", "words"} | ({"letters"} if primary == "tar" else set())
    expected = {name: values for name, values in columns(source).items() if name in kept}
    assert columns(poly / "primary") == columns(tmp_path / "back") == expected
    assert columns(poly / "media") == {}
    assert media(poly / "media") == media(tmp_path / "back") == media(source)
    assert media(poly / "primary") == {}
    assert any("the column bytes: the part jpg is in the media dataset" in said for said in told(report))
    assert told(back) == []


def test_only_columns_of_parts_that_stay_as_they_are_hold(tmp_path: Path, source: str) -> None:
    report = to(tmp_path / "b", source, image=parse_image("webp:80", 16))

    before, after = columns(source), columns(tmp_path / "b")
    assert sorted(after) == ["bytes", "letters", "wide", "words"]  # `words` declares that it reads the text alone
    assert (after["letters"], after["words"]) == (before["letters"], before["words"])
    assert after["bytes"] != before["bytes"]
    assert set(after["wide"].values()) <= {10, 11, 12, 13, 14, 15, 16}
    assert [said.partition(" (")[0] for said in told(report)] == [
        f"not copied: the column n: {COLUMNS['n']} may read any part, and some parts change"
    ]

    index(str(tmp_path / "b"), columns={"bytes": "size:webp", "letters": "chars:txt"}, rebuild=True)
    anew = columns(tmp_path / "b")
    assert all(anew[name] == after[name] for name in ("bytes", "letters"))


def test_the_numbers_are_the_same_bytes_for_any_number_of_workers(tmp_path: Path, source: str) -> None:
    for workers in (1, 3):
        to(tmp_path / str(workers), source, order="shuffle", shard_samples=5, workers=workers)

    one, three = (
        [find_column(locate(str(tmp_path / name)), column, 1).facts for column in COLUMNS] for name in ("1", "3")
    )
    assert [facts.digest for facts in one] == [facts.digest for facts in three]


def test_a_dry_run_tells_what_would_go_along_and_a_second_run_what_has(tmp_path: Path, source: str) -> None:
    options: dict[str, Any] = {"image": parse_image("webp")}
    foreseen = to(tmp_path / "b", source, dry_run=True, **options)
    made = to(tmp_path / "b", source, **options)
    again = to(tmp_path / "b", source, **options)

    assert foreseen.datasets[0].columns == made.datasets[0].columns == ("bytes", "letters", "wide", "words")
    assert told(foreseen) == told(made) == told(again)
    assert again.datasets == made.datasets


def test_compressed_shards_and_other_forms_have_no_catalog(tmp_path: Path, source: str) -> None:
    for name, options in (("gz", {"compress": "gz"}), ("mds", {"to_format": "mds"})):
        report = to(tmp_path / name, source, **options)
        assert (report.datasets[0].columns, told(report)) == ((), [])


def test_columns_of_what_another_conversion_made_are_forgotten_with_it(tmp_path: Path, source: str) -> None:
    dest, calls = tmp_path / "b", tmp_path / "calls"
    command = [sys.executable, str(script_in(tmp_path)), source]
    assert not died([*command, str(tmp_path / "whole")], Moment("replace", 0), calls)
    assert died([*command, str(dest)], Moment("replace", calls.stat().st_size), calls)  # before it says that it is done
    assert columns(dest) == columns(source)

    report = to(dest, a_source(tmp_path / "a", 1, columns={"other": NUMBER}), restart=True)

    assert report.datasets[0].columns == ("other",)
    assert list(columns(dest)) == ["other"]


SCRIPT = """
import sys
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
if __name__ == "__main__":
    convert([sys.argv[1]], sys.argv[2], ConvertRequest(shard_samples=5, order="shuffle"))
"""


def script_in(folder: Path) -> Path:
    script = folder / "killed.py"
    script.write_text(SCRIPT)
    return script


@pytest.mark.slow
def test_killed_while_columns_are_written_it_ends_with_all_of_them(tmp_path: Path, source: str) -> None:
    command, calls = [sys.executable, str(script_in(tmp_path)), source], tmp_path / "calls"
    assert not died([*command, str(tmp_path / "whole")], Moment("replace", 0), calls)
    last = calls.stat().st_size
    for back in range(8):  # finished.json, the columns, the catalog, and what was before it
        dest = tmp_path / str(back)
        assert died([*command, str(dest)], Moment("replace", last - back), calls)
        assert not died([*command, str(dest)], Moment("replace", 0), calls)
        assert columns(dest) == columns(tmp_path / "whole") == columns(source)
        assert media(dest) == media(source)
        assert not [name for name in os.listdir(dest / ".wdsctl" / "columns") if name.startswith(".")]
        assert {each.state for each in index(str(dest)).columns} == {"current"}
