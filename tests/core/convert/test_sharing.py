"""In the polylithic layout, a file that several samples refer to is stored once."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.build import an_image
from tests.core.conversions import content, convert_to, files, members
from tests.killing import kill_moments, run_and_kill
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.parts import PartRules, parse_image
from wdsctl.core.convert.plan_file import PlanFile, create_plan
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.convert.sharing import MIN_REPEATED_BYTES, FileReferences, RepeatedFiles, file_digester
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view

Rows = list[dict[str, Any]]


def make_questions(root: Path, pictures: int = 6, each: int = 4, *, mixed: bool = False) -> Path:
    """A JSONL file with several rows per picture; `mixed` shuffles the rows."""
    rows = [
        {"id": f"{i}-{k}", "image": f"images/{i}.jpg", "question": f"{k}?"}
        for i in range(pictures)
        for k in range(each)
    ]
    if mixed:
        random.Random(1).shuffle(rows)
    return a_table(root, rows, {f"images/{i}.jpg": b"picture %d" % i * 50 for i in range(pictures)})


def a_table(root: Path, rows: Rows, data: dict[str, bytes]) -> Path:
    for name, each in data.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(each)
    table = root / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return table


def convert_polylithic(dest: Path, source: Path, **options: Any) -> Any:
    form = {"from_format": "jsonl", "format_options": {"key": "id"}, "layout": "polylithic"}
    return convert_to(dest, source, **{**form, **options})


def read_samples(dest: Path) -> dict[str, dict[str, bytes]]:
    """Key -> part -> bytes of the complete samples, read with tarfile and json only."""
    media = content(dest / "media")
    samples: dict[str, dict[str, bytes]] = {}
    for name, data in members(dest / "primary"):
        key, _, part = name.partition(".")
        sample_parts = samples.setdefault(key, {})
        sample_parts |= (
            {each: media[entry] for each, entry in json.loads(data).items()} if part == "refs.json" else {part: data}
        )
    return samples


def convert_monolithic(dest: Path, source: Path, **options: Any) -> dict[str, dict[str, bytes]]:
    convert_polylithic(dest, source, **{"layout": "", **options})
    samples: dict[str, dict[str, bytes]] = {}
    for name, data in members(dest):
        key, _, part = name.partition(".")
        samples.setdefault(key, {})[part] = data
    return samples


@pytest.mark.parametrize("options", [{}, {"order": "key"}, {"order": "shuffle", "seed": 3}, {"shard_samples": 5}])
def test_shared_file_is_stored_once_and_every_sample_refers_to_it(tmp_path: Path, options: dict[str, Any]) -> None:
    source = make_questions(tmp_path / "a", mixed=True)

    report = convert_polylithic(tmp_path / "p", source, **options)

    stored = [data for _, data in members(tmp_path / "p" / "media")]
    assert len(stored) == len(set(stored)) == 6
    assert read_samples(tmp_path / "p") == convert_monolithic(tmp_path / "m", source, **options)
    assert report.layout.startswith("polylithic layout: storing 18 parts as 6 files, each once, saves")
    first = next(iter(read_samples(tmp_path / "p")))
    assert f"{first}.jpg" in content(tmp_path / "p" / "media")


def test_bytes_do_not_depend_on_number_of_workers(tmp_path: Path) -> None:
    source = make_questions(tmp_path / "a", 9, 5, mixed=True)
    for workers in (1, 3):
        convert_polylithic(tmp_path / str(workers), source, workers=workers, shard_samples=7, order="shuffle")

    assert files(tmp_path / "1") == files(tmp_path / "3")


@pytest.mark.parametrize("primary", ["tar", "jsonl"])
def test_converting_back_restores_original_samples(tmp_path: Path, primary: str) -> None:
    source = make_questions(tmp_path / "a", mixed=True)
    convert_monolithic(tmp_path / "m", source)
    convert_polylithic(tmp_path / "p", source, primary=primary)

    convert_to(tmp_path / "back", tmp_path / "p")
    convert_to(tmp_path / "again", tmp_path / "p", layout="polylithic", media=("jpg",), order="key")

    assert files(tmp_path / "back") == files(tmp_path / "m")
    assert len(members(tmp_path / "again" / "media")) == 6
    assert read_samples(tmp_path / "again") == read_samples(tmp_path / "p") or primary == "jsonl"


def test_sample_with_two_media_shares_one_of_them(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "left": "x.jpg", "right": "a.jpg"},
        {"id": "b", "left": "b.jpg", "right": "x.jpg"},
        {"id": "c", "left": "x.jpg", "right": "x.jpg"},
    ]
    source = a_table(tmp_path / "a", rows, {name: name.encode() for name in ("x.jpg", "a.jpg", "b.jpg")})

    convert_polylithic(tmp_path / "p", source)

    assert content(tmp_path / "p" / "media") == {
        "a.left.jpg": b"x.jpg",
        "a.right.jpg": b"a.jpg",
        "b.left.jpg": b"b.jpg",
    }
    assert read_samples(tmp_path / "p") == convert_monolithic(tmp_path / "m", source)


def test_samples_with_missing_files_fail_and_store_no_file(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "left": "x.jpg", "right": "none.jpg"},
        {"id": "b", "left": "x.jpg", "right": "y.jpg"},
        {"id": "c", "left": "y.jpg", "right": "none.jpg"},
        {"id": "d", "left": "x.jpg", "right": "y.jpg"},
    ]
    source = a_table(tmp_path / "a", rows, {"x.jpg": b"x", "y.jpg": b"y"})

    report = convert_polylithic(tmp_path / "p", source)

    assert report.failed == 2
    assert ("WDS231", 2) in [(each.code, each.count) for each in report.findings]
    assert content(tmp_path / "p" / "media") == {"b.left.jpg": b"x", "b.right.jpg": b"y"}
    assert sorted(read_samples(tmp_path / "p")) == ["b", "d"]
    listed = [line.split("\t")[:2] for line in Path(report.left_out_list).read_text().splitlines()]
    assert listed[1:] == [["WDS231", "row-000000000"], ["WDS231", "row-000000002"]]


def test_file_of_failed_sample_is_stored_for_other_samples(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "left": "good.png", "right": "bad.png"},
        {"id": "b", "left": "good.png", "right": "fine.png"},
        {"id": "c", "left": "bad.png", "right": "fine.png"},
        {"id": "d", "left": "bad.png", "right": "bad.png"},
    ]
    good, fine = an_image("PNG"), an_image("PNG")
    source = a_table(tmp_path / "a", rows, {"good.png": good, "fine.png": fine, "bad.png": b"no image"})
    image = parse_image("webp", parts=("*.png",))

    report = convert_polylithic(tmp_path / "p", source, image=image)

    assert report.failed == 3
    assert list(read_samples(tmp_path / "p")) == ["b"]
    assert read_samples(tmp_path / "p") == convert_monolithic(tmp_path / "m", source, image=image)


def test_differently_transcoded_parts_are_not_shared(tmp_path: Path) -> None:
    rows = [{"id": "a", "left": "x.png", "right": "x.png"}, {"id": "b", "left": "x.png", "right": "x.png"}]
    source = a_table(tmp_path / "a", rows, {"x.png": an_image("PNG")})
    image = parse_image("webp", parts=("left.png",))

    convert_polylithic(tmp_path / "p", source, image=image)
    convert_polylithic(tmp_path / "k", source, image=image, on_error="keep")

    assert sorted(content(tmp_path / "p" / "media")) == ["a.left.webp", "a.right.png"]
    assert sorted(content(tmp_path / "k" / "media")) == ["a.left.webp", "a.right.png", "b.left.webp"]
    expected = convert_monolithic(tmp_path / "m", source, image=image)
    assert read_samples(tmp_path / "p") == read_samples(tmp_path / "k") == expected


def test_renamed_parts_refer_to_renamed_entry(tmp_path: Path) -> None:
    rules = PartRules(rename=(("jpg", "photo.jpg"),))
    source = make_questions(tmp_path / "a", 2, 3)

    convert_polylithic(tmp_path / "p", source, parts=rules)

    assert sorted(content(tmp_path / "p" / "media")) == ["0-0.photo.jpg", "1-0.photo.jpg"]
    assert read_samples(tmp_path / "p") == convert_monolithic(tmp_path / "m", source, parts=rules)


def test_datasets_of_different_groups_share_no_files(tmp_path: Path) -> None:
    rows = [{"id": f"{i}", "image": "x.jpg", "who": "ab"[i % 2]} for i in range(6)]
    source = a_table(tmp_path / "a", rows, {"x.jpg": b"x"})

    convert_polylithic(tmp_path / "p", source, apart="json:who")

    for name, first in (("a", "0"), ("b", "1")):
        assert content(tmp_path / "p" / name / "media") == {f"{first}.jpg": b"x"}
        assert len(read_samples(tmp_path / "p" / name)) == 3


def test_file_that_vanishes_fails_all_its_samples(tmp_path: Path) -> None:
    source = make_questions(tmp_path / "a", 2, 3)

    class RemoveImage:
        def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
            if name == "write media":
                (tmp_path / "a" / "images" / "1.jpg").unlink()

        def advance(self, **_: Any) -> None: ...

        def note(self, message: str) -> None: ...

    options = ConvertRequest(from_format="jsonl", format_options={"key": "id"}, layout="polylithic")
    report = convert([str(source)], str(tmp_path / "p"), options, progress=RemoveImage())

    assert report.failed == 3
    assert list(read_samples(tmp_path / "p")) == ["0-0", "0-1", "0-2"]
    assert ("WDS231", 3) in [(each.code, each.count) for each in report.findings]


@pytest.mark.parametrize(("size", "total", "costly"), [(1, 2, False), (2, 30, False), (1, 10, True), (5, 10, True)])
def test_layout_auto_requires_many_repeated_bytes_and_large_share(size: int, total: int, costly: bool) -> None:
    unit = MIN_REPEATED_BYTES if costly or total > 10 else MIN_REPEATED_BYTES // 4
    assert RepeatedFiles(1, 1, size * unit, total * unit).are_costly is costly


def test_layout_auto_decides_by_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_questions(tmp_path / "a")
    assert convert_polylithic(tmp_path / "small", source, layout="auto").layout == ""
    assert content(tmp_path / "small") == flatten_samples(convert_monolithic(tmp_path / "m", source))

    monkeypatch.setattr("wdsctl.core.convert.sharing.MIN_REPEATED_BYTES", 1000)
    report = convert_polylithic(tmp_path / "large", source, layout="auto")
    assert report.layout.startswith("polylithic layout: storing 18 parts")
    assert len(members(tmp_path / "large" / "media")) == 6
    assert (
        convert_polylithic(tmp_path / "large", source, layout="auto").layout == report.layout
    )  # the second run changes nothing


def flatten_samples(samples: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    return {f"{key}.{part}": data for key, parts in samples.items() for part, data in parts.items()}


def test_plan_lists_users_of_shared_file(tmp_path: Path) -> None:
    path = str(tmp_path / "plan")
    with create_plan(path) as connection:
        rows = [(g, 0, g, f"k{g}", 2000, 1024, 0, 0, 0) for g in range(3)]
        connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        references = FileReferences(connection)
        for g in range(3):
            references.add(g, [("jpg", b"same", 1024)])
        assert references.find_repeated(is_ordered=False) == RepeatedFiles(2, 1, 2048, 6000)
        references.share_repeated()
    with PlanFile(path) as plan:
        assert plan.has_shared_parts()
        assert plan.shared_parts(0, 1) == {1: {"jpg": (0, "k0", "jpg")}}
        assert plan.users_of(0) == [("jpg", 1, "k1"), ("jpg", 2, "k2")]
        assert [int(each["media"]) for each in plan.origins(0, 2)] == [1024, 0, 0]


def test_digest_of_file_depends_on_path_and_kind_of_part() -> None:
    digest = file_digester(ConvertRequest())
    assert digest("left.jpg", "/a") == digest("right.jpg", "/a") != digest("left.jpg", "/b")
    assert digest("left.jpg", "/a") != digest("left.png", "/a")


def test_damaged_plan_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "plan")
    with create_plan(path) as connection:
        connection.execute("INSERT INTO shared VALUES (0, 'jpg', -5, 'jpg')")
        connection.execute("INSERT INTO entry VALUES (-5, 0, 0, 'k', 1, 1, 0, 0, 0)")
    with PlanFile(path) as plan, pytest.raises(CatalogError, match="damaged"):
        plan.shared_parts(0, 0)


KILLED = """
from __future__ import annotations
import sys
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
if __name__ == "__main__":
    request = ConvertRequest(
        from_format="jsonl", format_options={"key": "id"}, layout="polylithic", shard_samples=5, workers=2
    )
    convert([sys.argv[1]], sys.argv[2], request)
"""


@pytest.mark.slow
def test_conversion_killed_at_file_operation_ends_with_same_bytes(tmp_path: Path) -> None:
    source, dest, count = make_questions(tmp_path / "a", mixed=True), tmp_path / "b", tmp_path / "count"
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(source)]
    for moment in kill_moments([*command, str(tmp_path / "whole")], "replace", 6, count):
        assert run_and_kill([*command, str(dest)], moment, count)
        children.run([*command, str(dest)], check=True)
        assert files(dest) == files(tmp_path / "whole")
        os.rename(dest, tmp_path / f"done-{moment}")


@pytest.mark.parametrize("primary", ["tar", "jsonl"])
def test_polylithic_source_converts_only_selected_samples(tmp_path: Path, primary: Any) -> None:
    source = make_questions(tmp_path / "s", pictures=4, each=3)
    convert_polylithic(tmp_path / "p", source, primary=primary)
    root = str(tmp_path / "p" / "primary")
    split_dataset(root, SplitRequest(rule=SplitRule({"train": 2, "val": 1}, by="sample")))
    create_view(root, "first", ViewDefinition(where="key LIKE '0-%' OR key LIKE '1-%'"))

    convert_to(tmp_path / "whole", tmp_path / "p")
    convert_to(tmp_path / "view", f"{tmp_path / 'p'}@first")
    convert_to(tmp_path / "where", tmp_path / "p", where="key LIKE '3-%'")
    train = convert_to(tmp_path / "train", tmp_path / "p", split="train")
    val = convert_to(tmp_path / "val", tmp_path / "p", split="val")

    whole = content(tmp_path / "whole")
    assert len(whole) == 24
    assert content(tmp_path / "view") == {name: data for name, data in whole.items() if name[0] in "01"}
    assert content(tmp_path / "where") == {name: data for name, data in whole.items() if name[0] == "3"}
    assert (train.samples + val.samples, content(tmp_path / "train") | content(tmp_path / "val")) == (12, whole)
    with pytest.raises(InputError):
        convert_to(tmp_path / "none", tmp_path / "p", split="test")
