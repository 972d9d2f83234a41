from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder
from tests.core.captioned import a_jpeg
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.preview import preview_sample_type
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.write import RenamedSample
from wdsctl.core.validate.validate import validate

DATES = {
    f"IMG_2024.01.{day:02d}.{part}": a_jpeg(day) if part == "jpg" else b"a caption %d" % day
    for day in range(1, 23)
    for part in ("jpg", "txt")
}


_READ = """
import json, sys, webdataset
samples = webdataset.WebDataset(sys.argv[1:], shardshuffle=False)
print(json.dumps({s["__key__"]: sorted(p for p in s if not p.startswith("__")) for s in samples}))
"""


def _as_webdataset_reads(path: str) -> dict[str, list[str]]:
    """Parts by key. In a process of its own: webdataset leaves files open."""
    found = subprocess.run([sys.executable, "-c", _READ, path], check=True, capture_output=True, text=True)
    return json.loads(found.stdout)  # type: ignore[no-any-return]


def keys(root: str) -> list[str]:
    offsets = Offsets(locate(root).offsets_path(1))
    return [offsets.key(row) for row in range(offsets.samples)]


def test_names_with_dates_become_samples_that_every_reader_splits_alike(tmp_path: Path) -> None:
    report = prepare(a_folder(tmp_path / "raw", DATES), str(tmp_path / "made"))

    assert report.folder is not None
    assert report.folder.keys is not None
    assert (report.folder.samples, report.folder.keys.rule) == (22, "known-extension")
    assert load_config(locate(report.dest).dataset_yaml).key_until == "known-extension"
    theirs = _as_webdataset_reads(f"{report.dest}/shard-000000.tar")
    assert list(theirs) == keys(report.dest)
    assert keys(report.dest)[6] == "IMG_2024_01_07"
    assert theirs["IMG_2024_01_07"] == ["jpg", "txt"]
    assert not [found for found in validate(report.dest).findings if found.severity != "note"]


def test_new_files_have_their_keys_by_the_rule_of_the_dataset(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", DATES)
    made = str(tmp_path / "made")
    prepare(source, made)
    a_folder(
        tmp_path / "raw",
        {f"{i}.spectrum.{part}": a_jpeg(i) for i in range(100) for part in ("jpg", "txt")},
    )

    report = prepare(source, made)

    assert report.folder is not None
    assert report.folder.keys is not None
    assert (report.folder.samples, report.folder.keys.reason) == (122, "as before")
    assert prepare(source, made).up_to_date


def test_a_renamed_sample_is_found_in_shards_where_its_key_has_no_dots(tmp_path: Path) -> None:
    source, made = a_folder(tmp_path / "raw", DATES), str(tmp_path / "made")
    prepare(source, made)
    for part in ("jpg", "txt"):
        (tmp_path / "raw" / f"IMG_2024.01.07.{part}").rename(tmp_path / "raw" / f"IMG_2024.02.07.{part}")

    report = prepare(source, made, PrepareRequest(index=IndexRequest(missing="drop")))

    assert report.folder is not None
    assert report.folder.dropped == ()
    assert report.folder.renamed == (RenamedSample(before="IMG_2024.01.07", after="IMG_2024.02.07"),)
    assert report.folder.samples == 22


def test_what_is_shown_before_anything_is_written_goes_by_the_rule_of_the_dataset(tmp_path: Path) -> None:
    odd = {f"{i}.{word}.jpg": a_jpeg(i) for i in range(50) for word in ("near", "far")}
    source, made = a_folder(tmp_path / "raw", odd), str(tmp_path / "made")
    asked = PrepareRequest(index=IndexRequest(key_until="known-extension"))
    for options, kinds in (
        (PrepareRequest(index=IndexRequest(key_until="first-dot")), {"near.jpg", "far.jpg"}),
        (asked, {"jpg"}),
    ):
        seen = preview_sample_type(source, made, options)
        assert seen is not None
        assert set(seen.kinds) == kinds

    prepare(source, made, asked)
    again = preview_sample_type(source, made, PrepareRequest(redetect=True))

    assert again is not None
    assert set(again.kinds) == {"jpg"}


@pytest.mark.parametrize("is_raw", [True, False])
def test_another_rule_for_a_dataset_that_is_there_is_refused(tmp_path: Path, is_raw: bool) -> None:
    source = a_folder(tmp_path / "raw", DATES) if is_raw else a_dataset(tmp_path / "tars", {"a.tar": DATES})
    dest = str(tmp_path / "made") if is_raw else None
    prepare(source, dest, PrepareRequest(index=IndexRequest(key_until="known-extension" if is_raw else "first-dot")))

    with pytest.raises(UsageError, match="would rename every sample") as caught:
        prepare(source, dest, PrepareRequest(index=IndexRequest(key_until="last-dot")))

    assert caught.value.code == "WDS246"
    assert "--key-until last-dot" in caught.value.hint or "key-until=last-dot" in caught.value.hint


def test_a_rule_that_was_edited_in_dataset_yaml_is_refused(tmp_path: Path) -> None:
    source, made = a_folder(tmp_path / "raw", DATES), str(tmp_path / "made")
    prepare(source, made)
    path = Path(locate(made).dataset_yaml)
    path.write_text(path.read_text().replace("known-extension", "first-dot"))

    for again in (lambda: prepare(source, made), lambda: index(made)):
        with pytest.raises(DatasetError, match="a change would rename every sample") as caught:
            again()
        assert caught.value.code == "WDS246"


def test_a_rule_may_be_told_where_no_name_has_called_for_one(tmp_path: Path) -> None:
    source, made = a_folder(tmp_path / "raw", {"1.txt": b"a", "2.txt": b"b"}), str(tmp_path / "made")
    prepare(source, made)
    assert load_config(locate(made).dataset_yaml).key_until == ""

    prepare(source, made, PrepareRequest(index=IndexRequest(key_until="last-dot")))

    assert load_config(locate(made).dataset_yaml).key_until == "last-dot"


def test_a_rebuilt_catalog_keeps_the_rule(tmp_path: Path) -> None:
    made = str(tmp_path / "made")
    prepare(a_folder(tmp_path / "raw", DATES), made)
    index(made, rebuild=True)

    with pytest.raises(UsageError, match="would rename"):
        prepare(str(tmp_path / "raw"), made, PrepareRequest(index=IndexRequest(key_until="last-dot")))


@pytest.mark.parametrize("verb", [prepare, index])
def test_tars_in_which_several_samples_look_like_one_are_refused_until_somebody_says_so(
    tmp_path: Path, verb: object
) -> None:
    root = a_dataset(tmp_path, {"a.tar": DATES})

    with pytest.raises(DatasetError, match="the keys look wrong") as caught:
        verb(root)  # type: ignore[operator]
    assert caught.value.code == "WDS245"
    assert "--key-until first-dot" in caught.value.hint
    assert not Path(locate(root).catalog).exists()
    assert not list(Path(locate(root).meta).glob("offsets-*"))

    index(root, key_until="first-dot")

    assert keys(root) == ["IMG_2024"]
    assert "WDS245" not in {found.code for found in validate(root).findings}
    assert index(root).up_to_date


def test_the_way_out_that_is_named_makes_the_samples(tmp_path: Path) -> None:
    root, dest = a_dataset(tmp_path / "tars", {"a.tar": DATES}), str(tmp_path / "made")

    convert([root], dest, ConvertRequest(from_format="packed", format_options={"key-until": "known-extension"}))

    assert len(keys(dest)) == 22
    assert inspect(dest).samples == 22
    assert index(dest).up_to_date


def test_compressed_tars_are_looked_at_in_the_same_way(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "tars", {"a.tar": DATES})
    tar = tmp_path / "tars" / "a.tar"
    (tmp_path / "tars" / "a.tar.gz").write_bytes(gzip.compress(tar.read_bytes()))
    tar.unlink()

    with pytest.raises(DatasetError) as caught:
        convert([root], str(tmp_path / "made"))

    assert caught.value.code == "WDS245"
    assert "-O key-until=known-extension" in caught.value.hint


def test_other_rules_are_not_for_tars(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        index(a_dataset(tmp_path, {"a.tar": DATES}), key_until="last-dot")
    assert caught.value.code == "WDS248"
    assert "-O key-until=last-dot" in caught.value.hint


def test_validate_finds_samples_that_look_like_several_in_one(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": DATES})
    index(root, key_until="first-dot")
    with sqlite3.connect(locate(root).catalog) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'key_until'")

    found = [each for each in validate(root).findings if each.code == "WDS245"]

    assert [each.severity for each in found] == ["error"]
    assert "IMG_2024.01.01.jpg" in found[0].message


def test_a_few_odd_names_among_many_are_a_warning_and_stop_nothing(tmp_path: Path) -> None:
    many = {f"{i:05d}.{part}": b"x" for i in range(3000) for part in ("a", "txt")}
    root = a_dataset(tmp_path, {"a.tar": many | {f"z.{i}.{part}": b"x" for i in (1, 2) for part in ("a", "txt")}})
    index(root)

    found = [each for each in validate(root).findings if each.code == "WDS245"]

    assert [each.severity for each in found] == ["warning"]


def test_a_plan_that_was_left_by_a_killed_run_keeps_its_rule(tmp_path: Path) -> None:
    source, made = a_folder(tmp_path / "raw", DATES), tmp_path / "made"
    prepare(source, str(made))
    for name in ("dataset.yaml", "catalog.sqlite", "offsets-1.bin"):
        (made / ".wdsctl" / name).unlink()
    a_folder(tmp_path / "raw", {f"{i}.{word}.jpg": a_jpeg(i) for i in range(50) for word in ("near", "far")})

    report = prepare(source, str(made), PrepareRequest(on_missing="keep", take_unsure=True))

    assert report.folder is not None
    assert (report.folder.samples, report.folder.kept) == (122, 1)
