from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core.carried import COLUMNS, NUMBER, a_source, carry_messages, columns, media, select_keys
from tests.core.conversions import convert_to
from tests.killing import Moment, run_and_kill
from wdsctl.core.columns.column_file import find_column
from wdsctl.core.convert.parts import parse_image
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_source(tmp_path_factory.mktemp("source") / "a")


@pytest.mark.parametrize(
    ("options", "sample_count"),
    [
        ({"shard_samples": 5}, 12),
        ({"shard_samples": 5, "order": "shuffle", "seed": 3, "template": "s-{index}.tar", "workers": 2}, 12),
        ({"order": "key", "split": "val"}, 3),
        ({"where": "part = 'jpg' AND width >= 20"}, 8),
    ],
)
def test_convert_copies_column_values_and_media_facts_of_samples(
    tmp_path: Path, source: str, options: dict[str, Any], sample_count: int
) -> None:
    report = convert_to(tmp_path / "b", source, **options)

    actual = columns(tmp_path / "b")
    keys = set(actual["n"])
    assert len(keys) == sample_count
    assert actual == select_keys(columns(source), keys)
    assert media(tmp_path / "b") == {f"{key}.jpg": media(source)[f"{key}.jpg"] for key in keys}
    assert (report.datasets[0].columns, report.datasets[0].media) == (tuple(sorted(COLUMNS)), sample_count)
    assert carry_messages(report) == []


def test_index_does_not_recompute_copied_columns_and_facts(tmp_path: Path, source: str) -> None:
    convert_to(tmp_path / "b", source, order="shuffle")

    report = index(str(tmp_path / "b"), columns=COLUMNS, media=MediaRequest(selection="auto"))

    assert [(each.name, each.state, each.shards_read) for each in report.columns] == [
        (name, "current", 0) for name in sorted(COLUMNS)
    ]
    assert report.media is not None
    assert (report.media.state, report.media.read) == ("current", 0)


def test_split_datasets_have_columns_of_their_samples(tmp_path: Path, source: str) -> None:
    report = convert_to(tmp_path / "b", source, apart="split", shard_samples=4)

    before, after = columns(source), [columns(each.path) for each in report.datasets]
    assert sorted(key for actual in after for key in actual["n"]) == sorted(before["n"])
    assert all(actual == select_keys(before, set(actual["n"])) for actual in after)


@pytest.mark.parametrize("primary", ["tar", "jsonl"])
def test_columns_survive_polylithic_layout_and_back(tmp_path: Path, source: str, primary: Any) -> None:
    poly = tmp_path / "poly"
    report = convert_to(
        poly, source, layout="polylithic", media=("jpg",), primary=primary, order="shuffle", shard_samples=5
    )
    restored_report = convert_to(tmp_path / "back", poly)

    copied_columns = {"n", "words"} | ({"letters"} if primary == "tar" else set())
    expected = {name: values for name, values in columns(source).items() if name in copied_columns}
    assert columns(poly / "primary") == columns(tmp_path / "back") == expected
    assert columns(poly / "media") == {}
    assert media(poly / "media") == media(tmp_path / "back") == media(source)
    assert media(poly / "primary") == {}
    assert any(
        "the column bytes: the part jpg is in the media dataset" in message for message in carry_messages(report)
    )
    assert carry_messages(restored_report) == []


def test_only_columns_of_unchanged_parts_are_copied(tmp_path: Path, source: str) -> None:
    report = convert_to(tmp_path / "b", source, image=parse_image("webp:80", 16))

    before, after = columns(source), columns(tmp_path / "b")
    assert sorted(after) == ["bytes", "letters", "wide", "words"]  # `words` declares that it reads the text alone
    assert (after["letters"], after["words"]) == (before["letters"], before["words"])
    assert after["bytes"] != before["bytes"]
    assert set(after["wide"].values()) <= {10, 11, 12, 13, 14, 15, 16}
    assert [message.partition(" (")[0] for message in carry_messages(report)] == [
        f"not copied: the column n: {COLUMNS['n']} may read any part, and some parts change"
    ]

    index(str(tmp_path / "b"), columns={"bytes": "size:webp", "letters": "chars:txt"}, rebuild=True)
    recomputed = columns(tmp_path / "b")
    assert all(recomputed[name] == after[name] for name in ("bytes", "letters"))


def test_column_files_do_not_depend_on_number_of_workers(tmp_path: Path, source: str) -> None:
    for workers in (1, 3):
        convert_to(tmp_path / str(workers), source, order="shuffle", shard_samples=5, workers=workers)

    one, three = (
        [find_column(locate(str(tmp_path / name)), column, 1).facts for column in COLUMNS] for name in ("1", "3")
    )
    assert [facts.digest for facts in one] == [facts.digest for facts in three]


def test_dry_run_and_second_run_report_same_copied_columns(tmp_path: Path, source: str) -> None:
    options: dict[str, Any] = {"image": parse_image("webp")}
    planned = convert_to(tmp_path / "b", source, dry_run=True, **options)
    converted = convert_to(tmp_path / "b", source, **options)
    repeated = convert_to(tmp_path / "b", source, **options)

    assert planned.datasets[0].columns == converted.datasets[0].columns == ("bytes", "letters", "wide", "words")
    assert carry_messages(planned) == carry_messages(converted) == carry_messages(repeated)
    assert repeated.datasets == converted.datasets


def test_compressed_shards_and_other_formats_have_no_catalog(tmp_path: Path, source: str) -> None:
    for name, options in (("gz", {"compress": "gz"}), ("mds", {"to_format": "mds"})):
        report = convert_to(tmp_path / name, source, **options)
        assert (report.datasets[0].columns, carry_messages(report)) == ((), [])


def test_restart_removes_columns_of_previous_conversion(tmp_path: Path, source: str) -> None:
    dest, calls = tmp_path / "b", tmp_path / "calls"
    command = [sys.executable, str(write_script(tmp_path)), source]
    assert not run_and_kill([*command, str(tmp_path / "whole")], Moment("replace", 0), calls)
    assert run_and_kill(
        [*command, str(dest)], Moment("replace", calls.stat().st_size), calls
    )  # before finished.json is written
    assert columns(dest) == columns(source)

    report = convert_to(dest, a_source(tmp_path / "a", 1, columns={"other": NUMBER}), restart=True)

    assert report.datasets[0].columns == ("other",)
    assert list(columns(dest)) == ["other"]


SCRIPT = """
import sys
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
if __name__ == "__main__":
    convert([sys.argv[1]], sys.argv[2], ConvertRequest(shard_samples=5, order="shuffle"))
"""


def write_script(folder: Path) -> Path:
    script = folder / "killed.py"
    script.write_text(SCRIPT)
    return script


@pytest.mark.slow
def test_conversion_killed_while_columns_are_written_is_completed(tmp_path: Path, source: str) -> None:
    command, calls = [sys.executable, str(write_script(tmp_path)), source], tmp_path / "calls"
    assert not run_and_kill([*command, str(tmp_path / "whole")], Moment("replace", 0), calls)
    last = calls.stat().st_size
    for offset in range(8):  # finished.json, the columns, the catalog, and the steps before it
        dest = tmp_path / str(offset)
        assert run_and_kill([*command, str(dest)], Moment("replace", last - offset), calls)
        assert not run_and_kill([*command, str(dest)], Moment("replace", 0), calls)
        assert columns(dest) == columns(tmp_path / "whole") == columns(source)
        assert media(dest) == media(source)
        assert not [name for name in os.listdir(dest / ".wdsctl" / "columns") if name.startswith(".")]
        assert {each.state for each in index(str(dest)).columns} == {"current"}
