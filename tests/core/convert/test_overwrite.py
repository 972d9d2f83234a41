"""`convert --overwrite` replaces another conversion without losing data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards, tree
from tests.core.conversions import a_prepared_dataset, convert_to, files
from wdsctl.core.convert import overwrite as overwrite_module
from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.inspect.inspect import inspect


def run_convert(source: str, dest: Path, *, overwrite: bool = True, shard_samples: int = 5) -> ConvertReport:
    return convert([source], str(dest), ConvertRequest(overwrite=overwrite, shard_samples=shard_samples))


def test_overwrite_replaces_conversion_and_keeps_edited_dataset_yaml(tmp_path: Path) -> None:
    one, two = some_shards(tmp_path / "one", 2, 4), some_shards(tmp_path / "two", 3, 4)
    run_convert(one, tmp_path / "made")
    authored = Path(locate(str(tmp_path / "made")).config_path)
    authored.write_text(authored.read_text() + "subflavors: {mine: 1}\n")
    with pytest.raises(UsageError, match="another conversion") as caught:
        run_convert(two, tmp_path / "made", overwrite=False)
    assert "pass `--overwrite` to replace" in caught.value.hint

    report = run_convert(two, tmp_path / "made")
    assert (report.samples, report.dest, report.datasets[0].path) == (
        12,
        str(tmp_path / "made"),
        str(tmp_path / "made"),
    )
    assert inspect(str(tmp_path / "made")).samples == 12
    assert "mine: 1" in Path(f"{authored}.before").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["made", "one", "two"]
    assert run_convert(two, tmp_path / "made").up_to_date


def test_overwrite_with_same_conversion_is_up_to_date(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "one", 2, 4)
    run_convert(source, tmp_path / "made")
    before = {name: stat for name, stat in tree(tmp_path / "made").items() if name.endswith(".tar")}
    assert run_convert(source, tmp_path / "made").up_to_date
    assert {name: stat for name, stat in tree(tmp_path / "made").items() if name.endswith(".tar")} == before


def test_overwrite_refuses_destination_with_foreign_files(tmp_path: Path) -> None:
    one, two = some_shards(tmp_path / "one", 2, 4), some_shards(tmp_path / "two", 3, 4)
    run_convert(one, tmp_path / "made")
    (tmp_path / "made" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="files of the destination that no conversion wrote") as caught:
        run_convert(two, tmp_path / "made")
    assert caught.value.where.endswith("notes.txt")
    assert inspect(str(tmp_path / "made")).samples == 8


def test_overwrite_refuses_folder_that_no_conversion_wrote(tmp_path: Path) -> None:
    one, foreign = some_shards(tmp_path / "one", 2, 4), tmp_path / "mine"
    some_shards(foreign, 1, 4)
    with pytest.raises(UsageError):
        run_convert(one, foreign)
    assert len(list(foreign.glob("*.tar"))) == 1


@pytest.mark.parametrize("renames", [0, 1])
def test_interrupted_overwrite_keeps_one_dataset_and_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    one, two = some_shards(tmp_path / "one", 2, 4), some_shards(tmp_path / "two", 3, 4)
    run_convert(one, tmp_path / "made")
    original_rename = overwrite_module._rename
    renamed: list[str] = []

    def rename(path: str, other: str) -> None:
        if len(renamed) == renames:
            raise KeyboardInterrupt
        renamed.append(path)
        original_rename(path, other)

    with monkeypatch.context() as patch:
        patch.setattr(overwrite_module, "_rename", rename)
        with pytest.raises(KeyboardInterrupt):
            run_convert(two, tmp_path / "made")
    remaining = tmp_path / ("made" if renames == 0 else ".made.wdsctl-replaced")
    assert inspect(str(remaining)).samples == 8
    assert run_convert(two, tmp_path / "made").samples == 12
    assert inspect(str(tmp_path / "made")).samples == 12
    assert sorted(each.name for each in tmp_path.iterdir()) == ["made", "one", "two"]


def test_overwrite_keeps_other_folders_with_similar_names(tmp_path: Path) -> None:
    one, two = some_shards(tmp_path / "one", 2, 4), some_shards(tmp_path / "two", 3, 4)
    copy = tmp_path / "made.old"
    run_convert(one, copy)

    run_convert(one, tmp_path / "made")
    run_convert(two, tmp_path / "made")

    assert inspect(str(copy)).samples == 8
    assert inspect(str(tmp_path / "made")).samples == 12


def test_overwrite_of_killed_run_removes_replaced_dataset(tmp_path: Path) -> None:
    one = some_shards(tmp_path / "one", 2, 4)
    run_convert(one, tmp_path / "made")
    run_convert(one, tmp_path / ".made.wdsctl-replaced")

    assert run_convert(one, tmp_path / "made").up_to_date
    assert sorted(each.name for each in tmp_path.iterdir()) == ["made", "one"]


def test_overwrite_keeps_files_of_user_in_folders_of_destination(tmp_path: Path) -> None:
    source, dest = a_prepared_dataset(tmp_path / "one"), tmp_path / "made"
    convert_to(dest, source, apart="split")
    authored = Path(locate(str(dest / "val")).config_path)
    authored.write_text(authored.read_text() + "subflavors: {mine: 1}\n")
    (dest / "val" / "notes.txt").write_text("mine")

    with pytest.raises(UsageError, match="files of the destination that no conversion wrote") as caught:
        convert_to(dest, source, apart="split", shard_samples=3, overwrite=True)
    assert caught.value.where == str(dest / "val" / "notes.txt")
    assert convert_to(dest, source, apart="split", overwrite=True).up_to_date

    (dest / "val" / "notes.txt").unlink()
    convert_to(dest, source, apart="split", shard_samples=3, overwrite=True)
    assert "mine: 1" in Path(f"{authored}.before").read_text()

    authored.write_text(authored.read_text() + "subflavors: {mine: 2}\n")
    convert_to(dest, source, overwrite=True)
    assert "mine: 2" in (dest / ".wdsctl" / "val.dataset.yaml.before").read_text()


def test_overwrite_replaces_mds_with_its_index(tmp_path: Path) -> None:
    one, two = some_shards(tmp_path / "one", 2, 4), some_shards(tmp_path / "two", 3, 4)
    convert_to(tmp_path / "made", one, to_format="mds")

    assert convert_to(tmp_path / "made", two, to_format="mds", overwrite=True).samples == 12


def test_overwrite_refuses_format_whose_files_are_not_recorded(tmp_path: Path) -> None:
    one, two = some_shards(tmp_path / "one", 2, 4), some_shards(tmp_path / "two", 3, 4)
    convert_to(tmp_path / "made", one, to_format="folder")
    before = files(tmp_path / "made")

    with pytest.raises(UsageError, match="cannot replace files of the format folder"):
        convert_to(tmp_path / "made", two, to_format="folder", overwrite=True)
    assert convert_to(tmp_path / "made", one, to_format="folder", overwrite=True).up_to_date
    assert files(tmp_path / "made") == before
