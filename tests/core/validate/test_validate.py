from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import AsNobody, a_dataset, a_folder, a_shard, rewrite_shard, samples, some_shards
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.index.index import index
from wdsctl.core.validate.validate import ValidateReport, ValidateRequest, validate


def found(report: ValidateReport) -> list[tuple[str, str]]:
    return [(finding.code, finding.shard) for finding in report.findings]


@pytest.mark.usefixtures("place")
def test_valid_dataset_has_no_findings(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    report = validate(root)

    assert (report.shards, report.samples, report.findings) == (3, 15, ())


@pytest.mark.parametrize("workers", [1, 2])
def test_every_kind_of_damage_is_found_in_order_of_severity(tmp_path: Path, workers: int) -> None:
    good = a_shard(samples(0, 5))
    root = a_dataset(
        tmp_path,
        {
            "a.tar": good,
            "b.tar": good[: 5 * 1024 + 600],
            "c.tar": good[:2048] + b"?" + good[2049:],
            "d.tar": dict.fromkeys(["x.jpg", "y.jpg", "x.txt", "y.txt"], b"1"),
            "e.tar": [(f"{key}.{part}", b"1") for key in "zwz" for part in ("jpg", "txt")],
            "f.tar": [("v.jpg", b"1"), ("v.txt", b"1"), ("v.jpg", b"2")],
            "g.tar": {"u.jpg": b"", "u.txt": b"1"},
            "h.tar": b"no tar",
        },
    )
    index(root)
    report = validate(root, workers=workers)

    assert found(report) == [
        ("WDS102", "b.tar"),
        ("WDS103", "c.tar"),
        ("WDS104", "d.tar"),
        ("WDS104", "d.tar"),
        ("WDS105", "e.tar"),
        ("WDS107", "f.tar"),
        ("WDS101", "h.tar"),
        ("WDS106", "a.tar"),
        ("WDS110", "g.tar"),
        ("WDS109", ""),
        ("WDS109", ""),
    ]


@pytest.mark.usefixtures("place")
def test_key_in_two_shards_is_warning_with_both_shards(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 5), "b.tar": samples(3, 5), "c.tar": samples(7, 1)})
    index(root)
    (finding,) = validate(root).findings

    assert (finding.code, finding.severity, finding.key, finding.count) == ("WDS106", "warning", "000003", 3)
    assert "a.tar and b.tar" in finding.message


@pytest.mark.usefixtures("place")
def test_changed_new_and_missing_shards_are_each_reported_once(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    rewrite_shard(tmp_path / "shard-001.tar", samples(50, 1))
    (tmp_path / "shard-002.tar").unlink()
    some_shards(tmp_path, 1, first=3)

    assert found(validate(root)) == [("WDS305", f"shard-00{i}.tar") for i in (1, 2, 3)]


def test_shard_kept_as_missing_is_warning_as_in_index(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    (index_finding,) = index(root, missing="keep").findings

    report = validate(root)

    assert (index_finding.code, index_finding.severity) == ("WDS306", "warning")
    assert [(f.code, f.severity, f.shard) for f in report.findings] == [("WDS306", "warning", "shard-001.tar")]


def test_shard_changed_with_same_time_and_size_is_found(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    path = tmp_path / "shard-001.tar"
    stat = path.stat()
    path.write_bytes(a_shard(samples(50, 5)))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    assert path.stat().st_size == stat.st_size
    (finding,) = validate(root).findings
    assert (finding.code, finding.shard) == ("WDS305", "shard-001.tar")
    assert "though its size is the same" in finding.message


CAPTIONS = "sample_type: CaptioningSample\nfield_map: {image: 'jpg,png', caption: txt}\n"


def test_missing_parts_of_field_map_are_reported(tmp_path: Path) -> None:
    files = {**samples(0, 3), "x.png": b"1", "x.txt": b"1", "y.jpg": b"1", "z.txt": b"1"}
    root = a_dataset(tmp_path, {"a.tar": files})
    index(root)
    Path(locate(root).config_path).write_text(CAPTIONS)

    assert [(f.code, f.part, f.key, f.count) for f in validate(root).findings] == [
        ("WDS108", "txt", "y", 1),
        ("WDS108", "jpg", "z", 1),
    ]


def test_parts_of_nearly_all_samples_are_expected_without_field_map(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {**samples(0, 200), "x.jpg": b"1", "y.jpg": b"1"}})
    index(root)
    findings = validate(root).findings

    assert [(each.code, each.part, each.key, each.count) for each in findings] == [
        ("WDS108", "txt", "x", 1),
        ("WDS108", "txt", "y", 1),
    ]
    assert {(each.severity, each.message) for each in findings} == {("warning", "it lacks txt, which 200 others have")}
    Path(locate(root).config_path).write_text("sample_type: CrudeSample\noptional: [txt]\n")
    assert validate(root).findings == ()


def test_required_part_of_no_sample_is_one_finding_with_suggestion(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 3, "mp4", "txt")})
    index(root)
    Path(locate(root).config_path).write_text("sample_type: CaptioningSample\nfield_map: {image: mp5, caption: txt}\n")
    for report, severity in ((validate(root), "error"), (index(root), "warning")):
        (finding,) = [each for each in report.findings if each.code == "WDS108"]
        assert (finding.severity, finding.part, finding.count) == (severity, "mp5", 3)
        assert finding.message == "no sample has mp5: did you mean mp4?"


LABELS = "sample_type: ImageClassificationSample\nfield_map: {image: jpg, label: 'json[label]'}\n"


@pytest.mark.parametrize("optional", ["label", "json"])
def test_part_of_field_is_required_unless_optional(tmp_path: Path, optional: str) -> None:
    files = samples(0, 12, "jpg", "json")
    del files["000007.json"]
    root = a_dataset(tmp_path, {"a.tar": files})
    index(root)
    yaml = Path(locate(root).config_path)
    yaml.write_text(LABELS)

    (finding,) = validate(root).findings
    assert (finding.code, finding.severity, finding.key, finding.part) == ("WDS108", "error", "000007", "json")
    (index_finding,) = index(root).findings
    assert (index_finding.code, index_finding.severity, index_finding.key) == ("WDS108", "warning", "000007")
    yaml.write_text(f"{LABELS}optional: [{optional}]\n")
    (note,) = validate(root).findings
    assert index(root).findings == (note,)
    assert (note.code, note.severity, note.key) == ("WDS172", "note", "000007")
    assert note.message == "label: missing in 1 of 12 samples"


def test_masks_in_jpeg_are_a_warning(tmp_path: Path) -> None:
    files = samples(0, 4, "jpg", "mask.png") | samples(4, 3, "jpg", "mask.JPG") | samples(7, 2, "jpg", "mask.png")
    files |= samples(8, 1, "mask.JPG")  # of this sample, the PNG is the mask
    root = a_dataset(tmp_path, {"a.tar": dict(sorted(files.items()))})
    index(root)
    yaml = Path(locate(root).config_path)
    yaml.write_text('sample_type: SegmentationSample\nfield_map: {image: jpg, mask: "mask.png,mask.JPG"}\n')

    (warning,) = [each for each in validate(root).findings if each.severity != "note"]
    assert index(root).findings == (warning,)
    assert (warning.code, warning.severity, warning.key, warning.count) == ("WDS173", "warning", "000004", 3)
    assert warning.message.startswith("mask: JPEG in 3 of 9 samples")
    yaml.write_text("sample_type: ImageSample\nfield_map: {image: jpg}\n")
    assert index(root).findings == ()


def test_media_of_same_kind_replace_each_other(tmp_path: Path) -> None:
    pictures = {**samples(0, 14), **samples(14, 8, "png", "txt")}
    index(root := a_dataset(tmp_path, {"a.tar": pictures}))
    assert [finding for finding in validate(root).findings if finding.severity != "note"] == []
    rewrite_shard(f"{root}/a.tar", {**samples(0, 200), **samples(200, 3, "png", "txt"), "x.txt": b"no picture"})
    index(root)
    (finding,) = [finding for finding in validate(root).findings if finding.severity != "note"]
    assert (finding.code, finding.severity, finding.key) == ("WDS108", "warning", "x")
    assert finding.message == "it lacks jpg or png, which 203 others have"


@pytest.mark.parametrize("count", [1, 150])
def test_rare_part_is_only_note(tmp_path: Path, count: int) -> None:
    rare = {f"{i:06d}.seg.png": b"1" for i in range(count)}
    index(root := a_dataset(tmp_path, {"a.tar": dict(sorted({**samples(0, 200), **rare}.items()))}))
    assert {(finding.code, finding.severity) for finding in validate(root).findings} == {("WDS109", "note")}


@pytest.mark.parametrize(("name", "severity"), [("lable", "warning"), ("label_name", "note")])
def test_optional_part_that_no_sample_has_is_reported(tmp_path: Path, name: str, severity: str) -> None:
    index(root := a_dataset(tmp_path, {"a.tar": samples(0, 5, "jpg", "json")}))
    text = LABELS.replace("}", ", label_name: txt}")
    Path(locate(root).config_path).write_text(f"{text}optional: [label_name, {name}]\n")
    found = {(each.part, each.code, each.severity) for each in validate(root).findings}
    assert (name, "WDS131", severity) in found


def test_rare_part_is_unexpected_unless_mapped_to_field(tmp_path: Path) -> None:
    files = {**samples(0, 200), "000000.jgp": b"1", "000001.json": b"1"}
    root = a_dataset(tmp_path, {"a.tar": sorted(files.items())})
    index(root)

    assert sorted(f.part for f in validate(root).findings) == ["jgp", "json"]
    Path(locate(root).config_path).write_text(
        "sample_type: CaptioningSample\nfield_map: {image: jpg, caption: 'json[caption],txt'}\n"
    )
    (finding,) = validate(root).findings
    assert (finding.code, finding.part, finding.severity) == ("WDS109", "jgp", "note")


def test_missing_offsets_file_is_reported_with_command(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    Path(locate(root).offsets_path(1)).unlink()
    (finding,) = validate(root).findings

    assert (finding.code, finding.severity) == ("WDS302", "error")
    assert finding.message == f"the offsets file is missing; run `wdsctl index {root}` to write it again"


@pytest.mark.parametrize("text", ["field_map: [", "sample_type: NoSample\n", "field_map: {image: jpg}\nwhat: 1\n"])
def test_invalid_dataset_yaml_is_reported_and_rest_is_checked(tmp_path: Path, text: str) -> None:
    root = a_dataset(tmp_path, {"a.tar": {**samples(0, 200), "x.jpg": b"1"}, "b.tar": b"no tar"})
    index(root)
    Path(locate(root).config_path).write_text(text)
    findings = validate(root).findings

    assert sorted((f.code, f.severity) for f in findings) == [
        ("WDS101", "error"),
        ("WDS108", "warning"),
        ("WDS220", "error"),
    ]
    assert any("dataset.yaml" in f.message for f in findings if f.code == "WDS220")


@pytest.mark.parametrize(
    ("sample_type", "reason"),
    [
        ("no_such_module:Chats", "no module 'no_such_module' was found"),
        ("typed_by_user.chats:Chat", "has no Chat"),
        ("typed_by_user.chats:Chats", ""),
        ("typed_by_user.chats:Reexported", ""),
        ("typed_by_user.broken:Chats", "cannot read the module"),
        ("typed_by_user:Anything", ""),
    ],
)
def test_sample_type_that_cannot_be_loaded_is_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample_type: str, reason: str
) -> None:
    """The modules are not imported."""
    package = tmp_path / "code" / "typed_by_user"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit\nfrom typed_by_user.chats import *\n")
    (package / "chats.py").write_text("raise SystemExit\nfrom a import b as Reexported\nclass Chats: ...\n")
    (package / "broken.py").write_text("def (")
    monkeypatch.syspath_prepend(tmp_path / "code")
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 2)})
    index(root)
    Path(locate(root).config_path).write_text(f"sample_type: {sample_type}\n")

    findings = [(found.code, found.severity) for found in validate(root).findings if reason in found.message]
    assert findings == ([("WDS220", "warning")] if reason else [])


@pytest.mark.parametrize("config", ["", CAPTIONS])
def test_part_of_some_samples_is_note_with_and_without_field_map(tmp_path: Path, config: str) -> None:
    files = {**samples(0, 10), **{f"{i:06d}.json": b"1" for i in range(5)}, **{f"{i:06d}.cls": b"1" for i in range(10)}}
    root = a_dataset(tmp_path, {"a.tar": sorted(files.items())})
    index(root)

    if config:
        Path(locate(root).config_path).write_text(config)
    (finding,) = validate(root).findings
    assert (finding.code, finding.severity, finding.part, finding.count) == ("WDS109", "note", "json", 1)


def test_excluded_shards_are_not_checked(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 5), "b.tar": b"bad"})
    index(root, exclude=["b.tar"])

    assert validate(root).findings == ()


@pytest.mark.usefixtures("place")
def test_findings_are_recorded_in_ledger(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 5), "b.tar": b"bad"})
    index(root)
    validate(root)

    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        run = ledger.runs()[-1]
    assert (run["command"], run["status"], run["details"]["findings"]) == ("validate", "partial", {"WDS101": 1})


def test_validate_without_catalog_is_refused(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)

    with pytest.raises(CatalogError) as caught:
        validate(root)
    assert caught.value.code == "WDS301"
    assert not (tmp_path / ".wdsctl").exists()


def test_zeroed_page_in_catalog_is_always_detected(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3, 400)
    index(root)
    catalog = Path(locate(root).catalog_path)
    sound = catalog.read_bytes()
    assert validate(root).findings == ()
    for at in range(4096, len(sound), 4096):
        catalog.write_bytes(sound[:at] + bytes(4096) + sound[at + 4096 :])
        with pytest.raises(CatalogError) as caught:
            validate(root)
        assert (caught.value.code, "--rebuild" in caught.value.hint) == ("WDS302", True)


def test_unreadable_shard_is_not_reported_as_changed(public_path: Path, as_nobody: AsNobody) -> None:
    root = some_shards(public_path / "data", 2)
    index(root)
    Path(root, "shard-000.tar").chmod(0)
    report = as_nobody(lambda: validate(root))

    assert found(report) == [("WDS402", "shard-000.tar")]


@pytest.mark.parametrize("files", [{"readme": b"1", "licence": b"2"}, {}])
def test_dataset_without_samples_is_error(tmp_path: Path, files: dict[str, bytes]) -> None:
    root = a_dataset(tmp_path, {"a.tar": files})
    index(root)

    first = validate(root).findings[0]
    assert (first.code, first.severity) == ("WDS119", "error")


def test_dataset_in_preparation_is_refused_with_process(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {})
    with (
        hold_lock(locate(root).lock),
        pytest.raises(CatalogError, match=f"preparing the dataset.*process {os.getpid()}") as caught,
    ):
        validate(root)
    assert caught.value.code == "WDS304"


def test_folder_without_shards_is_refused_with_hint(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found no shards") as caught:
        validate(a_folder(tmp_path, {"a.jpg": b"1"}))
    assert (caught.value.code, caught.value.hint) == (
        "WDS003",
        f"to write raw files into shards, run `wdsctl prepare {tmp_path} DEST`",
    )


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("cat.txt", "Cat.txt", "CAT.txt", "dog.txt"), ["keys differ only in case: 'CAT', 'Cat' and 'cat'"]),
        (
            ("A/1.txt", "a/1.txt", "A/2.txt", "a/2.txt"),
            ["keys differ only in case: 'A/1' and 'a/1'", "keys differ only in case: 'A/2' and 'a/2'"],
        ),
        (("caf\u00e9.txt", "cafe\u0301.txt"), [r"keys differ only in Unicode form: 'cafe\u0301' and 'caf\xe9'"]),
        (
            ("caf\u00e9.txt", "cafe\u0301.txt", "CAF\u00c9.txt"),
            [r"keys differ only in case and Unicode form: 'CAF\xc9', 'cafe\u0301' and 'caf\xe9'"],
        ),
        (("A.txt", "A.TXT"), ["parts of a sample differ only in case: 'txt' and 'TXT'"]),
        (
            ("A.a", "A.A", "A.b", "A.B"),
            [
                "parts of a sample differ only in case: 'a' and 'A'",
                "parts of a sample differ only in case: 'b' and 'B'",
            ],
        ),
        (("A.txt", "B.txt", "caf\u00e9.txt"), []),
    ],
)
def test_names_that_differ_only_in_case_or_unicode_form_are_warnings(
    tmp_path: Path, names: tuple[str, ...], words: list[str]
) -> None:
    root = a_dataset(tmp_path, {"a.tar": [(name, b"1") for name in names]})
    index(root)

    found = [each for each in validate(root).findings if each.code not in ("WDS108", "WDS109")]

    assert [(each.code, each.severity, each.message, each.count) for each in found] == [
        ("WDS160", "warning", each, 1) for each in words
    ]


def test_paths_and_keys_of_shards_that_differ_only_in_case_are_warnings(tmp_path: Path) -> None:
    shards = {f"{name}{i}.tar": [(f"{name}{i}.txt", b"1")] for i in range(2) for name in "aA"}
    root = a_dataset(tmp_path, shards)
    index(root)

    found = [(each.code, each.shard, each.key, each.message) for each in validate(root).findings]

    keys = [("WDS160", f"A{i}.tar", f"A{i}", f"keys differ only in case: 'A{i}' and 'a{i}'") for i in range(2)]
    paths = [
        ("WDS160", f"A{i}.tar", "", f"paths of shards differ only in case: 'A{i}.tar' and 'a{i}.tar'") for i in range(2)
    ]
    assert sorted(found) == sorted([*keys, *paths])


def test_similar_keys_beyond_thousand_sets_are_only_counted(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": [(f"{name}{i}.txt", b"1") for name in "aA" for i in range(1003)]})
    index(root)

    found = [each for each in validate(root).findings if each.code == "WDS160"]

    assert (len(found), sum(each.count for each in found)) == (1001, 1003)
    more = "more sets of keys that differ only in case or Unicode form, beyond the first 1,000"
    assert [each.count for each in found if each.message == more] == [3]


def test_note_about_new_times_claims_no_equal_content(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    for shard in tmp_path.rglob("*.tar"):
        os.utime(shard, ns=(1, 1))

    (finding,) = validate(root).findings
    assert (finding.code, finding.severity) == ("WDS305", "note")
    assert "their sizes and headers are the same (`wdsctl validate --level hashes` compares" in finding.message


def test_report_names_levels_that_were_not_checked(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)

    structure, headers, content = (
        validate(root, ValidateRequest(levels=levels)).not_checked
        for levels in (("structure",), ("structure", "headers"), ("structure", "headers", "content"))
    )

    assert structure == "structure only: pass --level content to decode media too"
    assert headers.startswith("structure, headers only: pass --level content")
    assert content == ""
