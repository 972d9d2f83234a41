from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_dataset, a_folder, rewrite_shard, split_by_ratios
from wdsctl.core.dataset.config import DatasetConfig, dump_config, load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import PermissionDenied, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.validate.blend import release_blend, validate_blend
from wdsctl.core.validate.validate import ValidateReport, ValidateRequest, validate
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view

MEDIA = {"s.tar": {"a/1.jpg": b"1", "a/2.jpg": b"2", "a/3.jpg": b"3", "a/3.txt": b"t"}}


def a_primary(root: Path, names: Sequence[object]) -> str:
    a_folder(root, {"qa.jsonl": b"".join(json.dumps({"image": name}).encode() + b"\n" for name in names)})
    index(f"{root}/qa.jsonl")
    return f"{root}/qa.jsonl"


def media(root: Path) -> str:
    path = a_dataset(root / "media", MEDIA)
    index(path)
    return path


def refs_request(*pairs: tuple[str, str], **options: object) -> ValidateRequest:
    return ValidateRequest(levels=("structure", "refs"), refs=pairs, **options)  # type: ignore[arg-type]


def codes(report: ValidateReport) -> list[tuple[str, str, int]]:
    return [(each.code, each.key, each.count) for each in report.findings if each.code != "WDS127"]


def test_every_reference_is_followed_and_unused_media_are_counted(tmp_path: Path) -> None:
    root = a_primary(tmp_path, ["a/1.jpg", "a/2.jpg", "A/2.jpg", "a/9.jpg", "../a/1.jpg"])
    report = validate(root, refs_request(("image", media(tmp_path))))
    assert codes(report) == [("WDS154", "2", 1), ("WDS550", "3", 1), ("WDS552", "4", 1), ("WDS155", "a/3", 1)]
    assert "but 'a/2.jpg' does" in next(each.message for each in report.findings if each.code == "WDS154")


def test_ref_rules_are_remembered_relative_to_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_primary(tmp_path / "text", ["a/1.jpg"])
    media(tmp_path)
    monkeypatch.chdir(tmp_path)
    validate(root, refs_request(("image", "media")))
    assert load_config(locate(root).config_path).refs == {"image": "../media"}
    monkeypatch.chdir("/")
    with pytest.raises(PermissionDenied, match="leads out of") as caught:  # a dataset may come from a stranger
        validate(root, refs_request(again=True))
    assert f"--allow-path {tmp_path / 'media'}" in caught.value.hint
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", str(tmp_path / "media"))
    assert codes(validate(root, refs_request(again=True))) == [("WDS155", "a/2", 2)]


def test_new_rules_are_added_to_remembered_ones(tmp_path: Path) -> None:
    a_folder(tmp_path, {"qa.jsonl": b'{"image": "a/1.jpg", "note": "a/3.txt"}\n'})
    root, store = f"{tmp_path}/qa.jsonl", media(tmp_path)
    index(root)
    validate(root, refs_request(("image", store)))
    assert codes(validate(root, refs_request(("note", store)))) == [("WDS155", "a/2", 1)]
    assert load_config(locate(root).config_path).refs == {"image": "media", "note": "media"}


@pytest.mark.parametrize("invalid_rule", [("nope", "media"), ("image", "other"), ("image", "nowhere")])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_rule_that_matches_nothing_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invalid_rule: tuple[str, str], share: float
) -> None:
    root = a_primary(tmp_path, ["a/1.jpg"] * 4)
    media(tmp_path)
    index(a_dataset(tmp_path / "other", {"s.tar": {"x.jpg": b"x"}}))
    monkeypatch.chdir(tmp_path)
    validate(root, refs_request(("image", "media")))
    for _ in range(2):  # findings that the ledger remembers are reported again
        report = validate(root, refs_request(invalid_rule, share=share))
        assert load_config(locate(root).config_path).refs == {"image": "media"}
        assert any(each.severity == "error" for each in report.findings) or share < 1


def test_rule_in_ledger_is_written_to_dataset_yaml_again(tmp_path: Path) -> None:
    root, pair = a_primary(tmp_path, ["a/1.jpg"]), ("image", media(tmp_path))
    validate(root, refs_request(pair))
    os.unlink(locate(root).config_path)
    assert validate(root, refs_request(pair)).unread == 1
    assert load_config(locate(root).config_path).refs == {"image": "media"}


def test_invalid_dataset_yaml_is_reported_and_not_changed(tmp_path: Path) -> None:
    root, pair = a_primary(tmp_path, ["a/1.jpg"]), ("image", media(tmp_path))
    Path(locate(root).config_path).write_text("refs: [")
    assert [each.severity for each in validate(root, refs_request(pair)).findings if each.code != "WDS155"] == ["error"]
    assert Path(locate(root).config_path).read_text() == "refs: ["


def test_references_are_checked_again_only_after_data_or_store_changes(tmp_path: Path) -> None:
    root, store = a_primary(tmp_path, ["a/1.jpg", "a/4.jpg"]), media(tmp_path)
    first = validate(root, refs_request(("image", store)))
    second = validate(root, refs_request())
    assert codes(first) == codes(second) == [("WDS550", "1", 1), ("WDS155", "a/2", 2)]
    assert (first.unread, second.unread) == (0, 1)
    rewrite_shard(f"{store}/s.tar", {"a/1.jpg": b"1", "a/4.jpg": b"4"})
    index(store)
    third = validate(root, refs_request())
    assert (codes(third), third.unread) == ([], 0)


def test_references_into_plain_folder_are_checked_every_time(tmp_path: Path) -> None:
    root = a_primary(tmp_path, ["1.jpg", "3.jpg"])
    store = a_folder(tmp_path / "raw", {"1.jpg": b"1", "2.jpg": b"2", "3.jpg": b"3", "note.txt": b""})
    assert codes(validate(root, refs_request(("image", f"filesystem://{store}")))) == [("WDS155", "2.jpg", 1)]
    os.unlink(f"{store}/1.jpg")
    assert [code for code, _, _ in codes(validate(root, refs_request()))] == ["WDS550", "WDS155"]


def test_unused_media_are_not_reported_for_share_of_samples(tmp_path: Path) -> None:
    root = a_primary(tmp_path, ["a/1.jpg"] * 40)
    assert codes(validate(root, refs_request(("image", media(tmp_path)), share=0.1))) == []


@pytest.mark.parametrize(
    ("pair", "words"),
    [(("picture", "media"), "no sample has a value at picture"), (("image", "nowhere"), "cannot open the store")],
)
def test_missing_field_or_store_is_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str], words: str
) -> None:
    root = a_primary(tmp_path, ["a/1.jpg"])
    media(tmp_path)
    monkeypatch.chdir(tmp_path)
    (finding,) = [each for each in validate(root, refs_request(pair)).findings if each.code == "WDS156"]
    assert (finding.severity, words in finding.message) == ("error", True)


def test_note_explains_refs_option_when_no_rule_exists(tmp_path: Path) -> None:
    (finding,) = validate(a_primary(tmp_path, ["a/1.jpg"]), refs_request()).findings
    assert (finding.code, finding.severity, "--refs FIELD=STORE" in finding.message) == ("WDS156", "note", True)


def test_blend_file_provides_stores_and_media_fields_are_detected(tmp_path: Path) -> None:
    split_by_ratios(a_primary(tmp_path, ["a/1.jpg", "a/2.jpg", "a/3.jpg", "a/7.jpg"]), {"train": 1})
    media(tmp_path)
    a_folder(tmp_path / "other", {"x.jpg": b"x"})
    blend = "splits:\n  train:\n    path: qa.jsonl\n    aux:\n      o: filesystem://other\n      m: media\n"
    (tmp_path / "train.yaml").write_text(blend)
    report = validate_blend(str(tmp_path / "train.yaml"), ValidateRequest(levels=("structure", "refs")))
    errors = [(each.code, each.shard, each.key) for each in report.findings if each.severity == "error"]
    assert errors == [("WDS550", "qa.jsonl", "3")]
    assert (report.shards, report.samples) == (2, 7)


def test_blend_file_without_stores_advises_no_option_that_is_refused(tmp_path: Path) -> None:
    for name, more in (("a", {"a.json": b'{"image": "a/1.jpg"}'}), ("b", {"b.txt": b""})):
        index(a_dataset(tmp_path / name, {"s.tar": more}))
    media(tmp_path)
    (tmp_path / "b.yaml").write_text(
        "splits:\n  train:\n    blend: [{path: a, weight: 1}, {path: b, weight: 1, aux: {m: media}}]\n"
    )
    report = validate_blend(str(tmp_path / "b.yaml"), ValidateRequest(levels=("structure", "refs")))
    notes = {each.shard: each.message for each in report.findings if each.code == "WDS156"}

    assert set(notes) == {"a", "b"}  # and not `media`, which refers to nothing
    assert "list the stores under `aux`" in notes["a"]
    assert "have no names of media; write `refs:`" in notes["b"]
    assert "--refs" not in "".join(notes.values())


def test_level_refs_is_skipped_without_note_if_samples_name_no_media(tmp_path: Path) -> None:
    index(a_dataset(tmp_path / "a", {"s.tar": {"a.json": b'{"text": "a dog"}'}}))
    report = validate(str(tmp_path / "a"), refs_request())

    assert (report.findings, report.levels) == ((), ("structure",))
    assert report.skipped == ("refs skipped: the first samples name no media in JSON",)


def test_blend_file_detects_fields_that_name_arrays(tmp_path: Path) -> None:
    split_by_ratios(a_primary(tmp_path, ["1.npy", "2.npy"]), {"train": 1})
    index(a_dataset(tmp_path / "arrays", {"s.tar": {"1.npy": b"1"}}))
    (tmp_path / "train.yaml").write_text("splits:\n  train:\n    path: qa.jsonl\n    aux: {arrays: arrays}\n")
    report = validate_blend(str(tmp_path / "train.yaml"), ValidateRequest(levels=("structure", "refs")))

    assert [(each.code, each.key) for each in report.findings] == [("WDS550", "1")]
    assert report.not_checked.startswith("structure, refs only")


def test_stores_of_blend_file_precede_saved_rules(tmp_path: Path) -> None:
    primary = a_primary(tmp_path, ["a/1.jpg", "a/2.jpg"])
    validate(primary, refs_request(("image", media(tmp_path))))
    assert load_config(locate(primary).config_path).refs
    split_by_ratios(primary, {"train": 1})
    index(a_dataset(tmp_path / "fewer", {"s.tar": {"a/1.jpg": b"1"}}))
    (tmp_path / "train.yaml").write_text("splits:\n  train:\n    path: qa.jsonl\n    aux: {m: fewer}\n")
    report = validate_blend(str(tmp_path / "train.yaml"), ValidateRequest(levels=("structure", "refs")))

    assert [(each.code, each.key) for each in report.findings if each.severity == "error"] == [("WDS550", "1")]


def test_blend_file_checks_references_of_view(tmp_path: Path) -> None:
    primary = a_primary(tmp_path, ["a/1.jpg", "a/7.jpg"])
    media(tmp_path)
    create_view(primary, "all", ViewDefinition(where="size > 0"))
    (tmp_path / "v.yaml").write_text("splits:\n  train:\n    path: qa.jsonl@all\n    aux: {m: media}\n")
    report = validate_blend(str(tmp_path / "v.yaml"), ValidateRequest(levels=("structure", "refs")))

    assert [each.key for each in report.findings if each.code == "WDS550"] == ["1"]
    assert release_blend(str(tmp_path / "v.yaml")).released == 0


def test_findings_of_blend_file_name_their_dataset(tmp_path: Path) -> None:
    for name in "ab":
        index(a_dataset(tmp_path / name, {"s.tar": {f"{name}.json": b"{"}}))
    (tmp_path / "b.yaml").write_text("splits:\n  train:\n    blend: [{path: a, weight: 1}, {path: b, weight: 1}]\n")
    report = validate_blend(str(tmp_path / "b.yaml"), ValidateRequest(levels=("structure", "content")))
    assert [each.shard for each in report.findings if each.code == "WDS144"] == ["a/s.tar", "b/s.tar"]


def test_concurrent_changes_of_dataset_yaml_are_kept(tmp_path: Path) -> None:
    root, store = a_primary(tmp_path, ["a/1.jpg"]), media(tmp_path)
    config = Path(locate(root).config_path)

    def edit_config() -> None:
        config.write_text(dump_config(DatasetConfig(refs={"sound": "elsewhere"})))

    validate(root, refs_request(("image", store)), progress=RecordingProgress(at_advance=edit_config))
    assert load_config(str(config)).refs == {"sound": "elsewhere", "image": "media"}


def test_refs_without_level_refs_are_refused(tmp_path: Path) -> None:
    root, pair = a_primary(tmp_path, ["a/1.jpg"]), ("image", media(tmp_path))
    with pytest.raises(UsageError, match="needs the level refs") as caught:
        validate(root, ValidateRequest(refs=(pair,)))
    assert "--level structure,refs" in caught.value.hint
