from __future__ import annotations

import gzip
import json
import sqlite3
import sys
from pathlib import Path

import pytest

from tests import children
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
from wdsctl.core.prepare.preview import SamplesPreview, preview_samples
from wdsctl.core.prepare.request import PrepareRequest
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


def _read_with_webdataset(path: str) -> dict[str, list[str]]:
    """Parts by key, read in a separate process, since webdataset leaves files open."""
    found = children.run([sys.executable, "-c", _READ, path], check=True, capture_output=True, text=True)
    return json.loads(found.stdout)  # type: ignore[no-any-return]


def keys(root: str) -> list[str]:
    offsets = Offsets(locate(root).offsets_path(1))
    return [offsets.key(row) for row in range(offsets.samples)]


def test_names_with_dates_become_samples_that_webdataset_reads_alike(tmp_path: Path) -> None:
    report = prepare(a_folder(tmp_path / "raw", DATES), str(tmp_path / "made"))

    assert report.folder is not None
    assert report.folder.keys is not None
    assert (report.folder.samples, report.folder.keys.rule) == (22, "known-extension")
    assert load_config(locate(report.dest).config_path).key_until == "known-extension"
    webdataset_parts = _read_with_webdataset(f"{report.dest}/shard-000000.tar")
    assert list(webdataset_parts) == keys(report.dest)
    assert keys(report.dest)[6] == "IMG_2024_01_07"
    assert webdataset_parts["IMG_2024_01_07"] == ["jpg", "txt"]
    assert not [found for found in validate(report.dest).findings if found.severity != "note"]


def test_new_files_get_keys_by_rule_of_dataset(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", DATES)
    dest = str(tmp_path / "made")
    prepare(source, dest)
    a_folder(
        tmp_path / "raw",
        {f"{i}.spectrum.{part}": a_jpeg(i) for i in range(100) for part in ("jpg", "txt")},
    )

    report = prepare(source, dest)

    assert report.folder is not None
    assert report.folder.keys is not None
    assert (report.folder.samples, report.folder.keys.reason) == (122, "as before")
    assert prepare(source, dest).up_to_date


def kinds_of(preview: SamplesPreview | None) -> set[str]:
    assert preview is not None
    assert preview.detection is not None
    return set(preview.detection.kinds)


def test_preview_samples_uses_key_rule_of_dataset(tmp_path: Path) -> None:
    odd = {f"{i}.{word}.jpg": a_jpeg(i) for i in range(50) for word in ("near", "far")}
    source, dest = a_folder(tmp_path / "raw", odd), str(tmp_path / "made")
    request = PrepareRequest(index=IndexRequest(key_until="known-extension"))
    for options, kinds in (
        (PrepareRequest(index=IndexRequest(key_until="first-dot")), {"near.jpg", "far.jpg"}),
        (request, {"jpg"}),
    ):
        preview = preview_samples(source, dest, options)
        assert kinds_of(preview) == kinds

    prepare(source, dest, request)
    second_preview = preview_samples(source, dest, PrepareRequest(redetect=True))

    assert kinds_of(second_preview) == {"jpg"}


@pytest.mark.parametrize("is_raw", [True, False])
def test_prepare_refuses_other_key_until_for_existing_dataset(tmp_path: Path, is_raw: bool) -> None:
    source = a_folder(tmp_path / "raw", DATES) if is_raw else a_dataset(tmp_path / "tars", {"a.tar": DATES})
    dest = str(tmp_path / "made") if is_raw else None
    prepare(source, dest, PrepareRequest(index=IndexRequest(key_until="known-extension" if is_raw else "first-dot")))

    with pytest.raises(UsageError, match="would rename every sample") as caught:
        prepare(source, dest, PrepareRequest(index=IndexRequest(key_until="last-dot")))

    assert caught.value.code == "WDS246"
    assert "--key-until last-dot" in caught.value.hint or "key-until=last-dot" in caught.value.hint


def test_key_until_edited_in_dataset_yaml_is_refused(tmp_path: Path) -> None:
    source, dest = a_folder(tmp_path / "raw", DATES), str(tmp_path / "made")
    prepare(source, dest)
    path = Path(locate(dest).config_path)
    path.write_text(path.read_text().replace("known-extension", "first-dot"))

    for second_preview in (lambda: prepare(source, dest), lambda: index(dest)):
        with pytest.raises(DatasetError, match="a change would rename every sample") as caught:
            second_preview()
        assert caught.value.code == "WDS246"


def test_key_until_may_be_set_later_while_names_do_not_depend_on_it(tmp_path: Path) -> None:
    source, dest = a_folder(tmp_path / "raw", {"1.txt": b"a", "2.txt": b"b"}), str(tmp_path / "made")
    prepare(source, dest)
    assert load_config(locate(dest).config_path).key_until == ""

    prepare(source, dest, PrepareRequest(index=IndexRequest(key_until="last-dot")))

    assert load_config(locate(dest).config_path).key_until == "last-dot"


def test_rebuild_keeps_key_until(tmp_path: Path) -> None:
    dest = str(tmp_path / "made")
    prepare(a_folder(tmp_path / "raw", DATES), dest)
    index(dest, rebuild=True)

    with pytest.raises(UsageError, match="would rename"):
        prepare(str(tmp_path / "raw"), dest, PrepareRequest(index=IndexRequest(key_until="last-dot")))


@pytest.mark.parametrize("command", [prepare, index])
def test_tars_with_ambiguous_keys_are_refused_without_key_until(tmp_path: Path, command: object) -> None:
    root = a_dataset(tmp_path, {"a.tar": DATES})

    with pytest.raises(DatasetError, match="the keys look wrong") as caught:
        command(root)  # type: ignore[operator]
    assert caught.value.code == "WDS245"
    assert "--key-until first-dot" in caught.value.hint
    assert not Path(locate(root).catalog_path).exists()
    assert not list(Path(locate(root).meta).glob("offsets-*"))

    index(root, key_until="first-dot")

    assert keys(root) == ["IMG_2024"]
    assert "WDS245" not in {found.code for found in validate(root).findings}
    assert index(root).up_to_date


def test_convert_with_key_until_option_separates_samples(tmp_path: Path) -> None:
    root, dest = a_dataset(tmp_path / "tars", {"a.tar": DATES}), str(tmp_path / "made")

    convert([root], dest, ConvertRequest(from_format="packed", format_options={"key-until": "known-extension"}))

    assert len(keys(dest)) == 22
    assert inspect(dest).samples == 22
    assert index(dest).up_to_date


def test_compressed_tars_with_ambiguous_keys_are_refused(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "tars", {"a.tar": DATES})
    tar = tmp_path / "tars" / "a.tar"
    (tmp_path / "tars" / "a.tar.gz").write_bytes(gzip.compress(tar.read_bytes()))
    tar.unlink()

    with pytest.raises(DatasetError) as caught:
        convert([root], str(tmp_path / "made"))

    assert caught.value.code == "WDS245"
    assert "-O key-until=known-extension" in caught.value.hint


def test_key_until_last_dot_is_refused_for_tars(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        index(a_dataset(tmp_path, {"a.tar": DATES}), key_until="last-dot")
    assert caught.value.code == "WDS248"
    assert "-O key-until=last-dot" in caught.value.hint


def test_validate_reports_samples_that_merge_several_files(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": DATES})
    index(root, key_until="first-dot")
    with sqlite3.connect(locate(root).catalog_path) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'key_until'")

    found = [each for each in validate(root).findings if each.code == "WDS245"]

    assert [each.severity for each in found] == ["error"]
    assert "IMG_2024.01.01.jpg" in found[0].message


def test_few_ambiguous_keys_are_warning(tmp_path: Path) -> None:
    regular_names = {f"{i:05d}.{part}": b"x" for i in range(3000) for part in ("a", "txt")}
    root = a_dataset(
        tmp_path, {"a.tar": regular_names | {f"z.{i}.{part}": b"x" for i in (1, 2) for part in ("a", "txt")}}
    )
    index(root)

    found = [each for each in validate(root).findings if each.code == "WDS245"]

    assert [each.severity for each in found] == ["warning"]


def test_plan_of_killed_run_keeps_key_until(tmp_path: Path) -> None:
    source, dest = a_folder(tmp_path / "raw", DATES), tmp_path / "made"
    prepare(source, str(dest))
    for name in ("dataset.yaml", "catalog.sqlite", "offsets-1.bin"):
        (dest / ".wdsctl" / name).unlink()
    a_folder(tmp_path / "raw", {f"{i}.{word}.jpg": a_jpeg(i) for i in range(50) for word in ("near", "far")})

    report = prepare(source, str(dest), PrepareRequest(on_missing="keep", accept_type=True))

    assert report.folder is not None
    assert (report.folder.samples, report.folder.kept) == (122, 1)
