"""`validate --level load` says of samples what a training does with them."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
import torch
from PIL import Image

from tests.build import an_image
from tests.loader.datasets import Parts, a_dataset
from tests.prepare_requests import prepare_request
from tests.robots import make_v30
from wdsctl import api
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import WdsctlError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.validate.headers import ReadShard
from wdsctl.core.validate.load import LastRange
from wdsctl.core.validate.request import ValidateReport
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view
from wdsctl.loader import get_loader, get_train_dataset
from wdsctl.loader.decoding import jpeg

JPEG = an_image("JPEG")
SAMPLES = 18


def encoded(pixels: Any, form: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


FLOAT_TIFF = encoded(np.ones((3, 4), np.float32), "TIFF")
GRAY, RGBA = encoded(np.zeros((3, 4), np.uint8), "PNG"), encoded(np.zeros((3, 4, 4), np.uint8), "PNG")


def stored(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def make(root: Path, parts: Any, sample_type: str = "CrudeSample", **fields: str) -> str:
    return a_dataset(root, SAMPLES, parts=parts, sample_type=sample_type, field_map=fields)


def set_config(root: str, text: str) -> None:
    path = Path(locate(root).config_path)
    path.write_text(text + path.read_text().partition("subflavors: {}\n")[2])


def checked(root: str, level: str = "load", **options: Any) -> ValidateReport:
    return api.validate(root, level=level, workers=1, **options)


def found(report: ValidateReport) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for each in report.findings:
        if each.severity != "note":
            counts[each.code, each.part] += each.count
    return counts


def lost_in_training(root: str) -> tuple[int, bool]:
    """(samples that the loader leaves out, whether batches fail or the loader refuses the dataset as they would)."""
    loader = get_loader(get_train_dataset(root, batch_size=16, repeat=False))
    try:
        list(loader)
    except WdsctlError as error:
        return 0, error.code in ("WDS536", "WDS507") or "different dtypes" in error.message
    batches = sum(count for cause, count in loader.stats.causes.items() if cause.startswith("batch:"))
    return loader.stats.causes.total() - batches, batches > 0


def missing_depth(i: int) -> Parts:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return {"jpg": JPEG, **({"depth.npy": file.getvalue()} if i % 3 else {})}


def test_advice_about_missing_parts_makes_batches(tmp_path: Path) -> None:
    root = make(tmp_path / "a", missing_depth)
    refused = next(each for each in checked(root).findings if each.code == "WDS536")
    advice = 'write `field_map: {"depth.npy": "depth.npy"}` and `optional: ["depth.npy"]` in dataset.yaml'
    assert advice in refused.message

    set_config(root, 'sample_type: CrudeSample\nfield_map: {"depth.npy": "depth.npy"}\noptional: ["depth.npy"]\n')

    assert found(checked(root)) == {}
    assert lost_in_training(root) == (0, False)


def deep_tiff(i: int) -> Parts:
    return {"tif": FLOAT_TIFF if i % 6 == 0 else encoded(np.zeros((3, 4, 3), np.uint8), "TIFF"), "txt": b"x"}


def odd_mask(i: int) -> Parts:
    return {"jpg": JPEG, "png": RGBA if i == 3 else GRAY}


def odd_tensor(i: int) -> Parts:
    return {"pt": stored(torch.zeros(3) if i == 4 else torch.zeros(3, 4)), "txt": b"x"}


def odd_nested_tensor(i: int) -> Parts:
    return {"pt": stored({"a": torch.zeros(2, dtype=torch.float16 if i % 2 else torch.float32)}), "txt": b"x"}


def sparse_tensor(_: int) -> Parts:
    return {"pt": stored(torch.eye(3).to_sparse())}


def half_sparse_tensor(i: int) -> Parts:
    return {"pt": stored(torch.eye(3) if i % 2 else torch.eye(3).to_sparse())}


def odd_sparse_size(i: int) -> Parts:
    return {"pt": stored(torch.eye(4 if i == 4 else 3).to_sparse())}


def csr_tensor(_: int) -> Parts:
    return {"pt": stored(torch.eye(3).to_sparse(layout=torch.sparse_csr))}


def odd_parts(i: int) -> Parts:
    return {"jpg" if i % 2 else "png": JPEG, "txt": b"x"}


def odd_json(i: int) -> Parts:
    return {"jpg": JPEG, "json": json.dumps({f"key{i}": i}).encode()}


def odd_sizes(i: int) -> Parts:
    return {"jpg": encoded(np.zeros((8 + i, 40 - i, 3), np.uint8), "JPEG"), "txt": b"x"}


def odd_text(i: int) -> Parts:
    return {"jpg": JPEG, "txt": b"\xff" if i == 2 else b"x"}


@pytest.mark.parametrize(
    ("parts", "sample_type", "fields", "expected"),
    [
        (deep_tiff, "CaptioningSample", {"image": "tif", "caption": "txt"}, {("WDS171", "tif"): 3}),
        (odd_mask, "SegmentationSample", {"image": "jpg", "mask": "png"}, {("WDS171", "png"): 1}),
        (odd_text, "CaptioningSample", {"image": "jpg", "caption": "txt"}, {("WDS171", "txt"): 1}),
        (odd_tensor, "CrudeSample", {}, {("WDS506", ""): 1}),
        (odd_nested_tensor, "CrudeSample", {}, {("WDS506", ""): 9}),
        (sparse_tensor, "CrudeSample", {}, {}),
        (half_sparse_tensor, "CrudeSample", {}, {("WDS506", ""): 9}),
        (odd_sparse_size, "CrudeSample", {}, {("WDS506", ""): 1}),
        (csr_tensor, "CrudeSample", {}, {("WDS506", ""): 18}),
        (odd_parts, "CrudeSample", {}, {("WDS536", ""): 1}),
        (odd_json, "CrudeSample", {}, {}),
        (odd_sizes, "CaptioningSample", {"image": "jpg", "caption": "txt"}, {}),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse")  # of torch
def test_findings_agree_with_training(
    tmp_path: Path, parts: Any, sample_type: str, fields: dict[str, str], expected: dict[tuple[str, str], int]
) -> None:
    root = make(tmp_path, parts, sample_type, **fields)
    report = checked(root)
    assert found(report) == expected
    assert report.levels == ("structure", "load")

    samples = sum(count for (code, _), count in expected.items() if code == "WDS171")
    assert lost_in_training(root) == (samples, any(code in ("WDS506", "WDS536") for code, _ in expected))


def test_finding_names_sample_part_field_cause_and_remedy(tmp_path: Path) -> None:
    report = checked(make(tmp_path, deep_tiff, "CaptioningSample", image="tif", caption="txt"))
    first = report.findings[0]
    assert (first.code, first.severity, first.key, first.part) == ("WDS171", "error", "000000", "tif")
    assert first.message.startswith(
        "field image: cannot decode part 'tif': an image of 32 bits per pixel (mode F) has no defined range"
    )
    assert "use image_decode='pil'" in first.message


def test_unlike_samples_are_reported_in_words_of_loader(tmp_path: Path) -> None:
    root = make(tmp_path, odd_parts)
    (finding,) = (each for each in checked(root).findings if each.severity == "error")
    with pytest.raises(WdsctlError) as raised:
        get_loader(get_train_dataset(root, batch_size=16)).state_dict()
    error = raised.value
    assert finding.message == f"split 'train': {error.message}; {error.hint}"


def test_samples_of_different_splits_need_not_go_together(tmp_path: Path) -> None:
    root = make(tmp_path, odd_tensor)
    keys = tmp_path / "val.txt"
    keys.write_text("000004\n")
    assert found(checked(root)) == {("WDS506", ""): 1}
    api.split(root, keys={"val": keys}, rest="train", yes=True)
    assert found(checked(root)) == {}


def test_unchanged_shards_are_not_loaded_again_and_keep_their_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make(tmp_path, lambda i: {**odd_tensor(i), "tif": FLOAT_TIFF if i == 7 else GRAY})
    first = checked(root)
    assert found(first) == {("WDS506", ""): 1, ("WDS171", "tif"): 1}

    monkeypatch.setattr("wdsctl.loader.plan.load_check.DatasetLoadCheck.load", None)
    second = checked(root)
    assert (second.findings, second.unread) == (first.findings, first.shards)


def test_changed_dataset_yaml_loads_all_samples_again(tmp_path: Path) -> None:
    root = make(tmp_path, deep_tiff, "CaptioningSample", image="tif", caption="txt")
    assert found(checked(root)) == {("WDS171", "tif"): 3}
    set_config(root, "sample_type: TextSample\nfield_map: {text: txt}\n")
    assert found(checked(root)) == {}


def test_parts_are_read_and_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make(tmp_path, lambda _: {"jpg": JPEG, "json": b'{"a": 1}'})
    set_config(root, "sample_type: CrudeSample\n")
    decoded, reads = Counter[str](), Counter[str]()
    decode = simplejpeg.decode_jpeg

    def counted_decode(data: bytes, *arguments: Any, **options: Any) -> Any:
        decoded["jpg"] += 1
        return decode(data, *arguments, **options)

    def counted_range(read: ReadShard) -> LastRange:
        def counted_read(offset: int, size: int) -> bytes:
            reads["jpg"] += (data := read(offset, size)).count(JPEG)
            return data

        return LastRange(counted_read)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", counted_decode)
    monkeypatch.setattr(jpeg, "decode_jpeg", counted_decode)
    monkeypatch.setattr("wdsctl.core.validate.unit.LastRange", counted_range)
    report = checked(root, "content,load,schema,refs")
    assert report.levels == ("structure", "headers", "content", "load")
    assert (decoded["jpg"], reads["jpg"]) == (SAMPLES, SAMPLES)


def damaged(i: int) -> Parts:
    cut = an_image("JPEG", quality=95)
    wrong_sum = bytearray(an_image("PNG"))
    wrong_sum[-1] ^= 1
    zeros = bytearray(cut)
    zeros[-30:-10] = bytes(20)
    return {"jpg": (JPEG, cut[: len(cut) * 2 // 3], bytes(zeros), b"x")[i % 4], "png": bytes(wrong_sum), "txt": b"x"}


def test_content_finds_same_damage_whether_loader_has_decoded_or_not(tmp_path: Path) -> None:
    root = make(tmp_path, damaged)
    alone = checked(root, "content", again=True).findings
    together = checked(root, "content,load", again=True).findings
    assert {each.code for each in alone} == {"WDS140", "WDS143", "WDS147"}
    assert together == alone


def test_optional_value_in_json_is_counted(tmp_path: Path) -> None:
    root = make(tmp_path, lambda i: {"jpg": JPEG, "json": b"{}" if i in (2, 9) else b'{"label": 1}'})
    set_config(
        root,
        "sample_type: ImageClassificationSample\nfield_map: {image: jpg, label: 'json[label]'}\noptional: [label]\n",
    )
    (note,) = checked(root).findings
    assert (note.code, note.severity, note.key, note.count) == ("WDS172", "note", "000002", 2)
    assert note.message == f"label: missing in 2 of {SAMPLES} samples"


def test_sample_without_required_part_is_reported_once(tmp_path: Path) -> None:
    root = make(tmp_path, lambda i: {"jpg": JPEG, **({} if i == 3 else {"txt": b"x"})}, "CaptioningSample")
    set_config(root, "sample_type: CaptioningSample\nfield_map: {image: jpg, caption: txt}\n")
    assert [each.code for each in checked(root).findings] == ["WDS108"]
    (finding,) = checked(root, shards=["shard-*.tar"]).findings  # findings across shards are omitted
    assert (finding.code, finding.key) == ("WDS171", "000003")


def test_type_that_cannot_be_imported_is_not_checked(tmp_path: Path) -> None:
    root = make(tmp_path, lambda _: {"jpg": JPEG, "txt": b"x"})
    set_config(root, "sample_type: absent_module:Kind\nfield_map: {image: jpg}\n")
    report = checked(root, "all")
    assert "load" not in report.levels
    (reason,) = (each for each in report.skipped if each.startswith("load"))
    assert reason.startswith("load: not checked: sample_type: absent_module:Kind is code that data names")
    assert found(report) == {("WDS220", ""): 1}  # a warning


def test_without_torch_level_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    root = make(tmp_path, lambda i: {"jpg": b"x" if i == 1 else JPEG, "txt": b"x"})
    monkeypatch.setattr("wdsctl.core.validate.load.import_module", fail)
    report = checked(root, "content,load")
    assert report.skipped == (
        "load: not checked: the loader needs torch, which is not installed; pip install 'wdsctl[loader]'",
    )
    assert found(report) == {("WDS140", "jpg"): 1}


def test_dataset_whose_code_is_not_trusted_is_not_checked(tmp_path: Path) -> None:
    root = make(tmp_path, lambda _: {"jpg": JPEG, "txt": b"x"})
    set_config(root, "sample_type: CrudeSample\nsample_loader: absent.py:load\n")
    assert checked(root).skipped[0].startswith("load: not checked: dataset.yaml names code")


def test_view_judges_its_own_samples(tmp_path: Path) -> None:
    root = make(tmp_path, odd_tensor)
    create_view(root, "plain", ViewDefinition(where="key <> '000004'"))
    assert found(checked(root)) == {("WDS506", ""): 1}
    assert found(checked(f"{root}@plain")) == {}


def test_media_of_polylithic_dataset_are_loaded(tmp_path: Path) -> None:
    root = make(tmp_path / "one", deep_tiff, "CaptioningSample", image="tif", caption="txt")
    folder = str(tmp_path / "two")
    api.convert(root, folder, layout="polylithic")
    report = checked(folder, "all")
    assert found(report) == {("WDS171", "refs.json"): 3}


def test_check_of_some_samples_keeps_findings_of_full_check(tmp_path: Path) -> None:
    root = make(tmp_path, odd_text, "CaptioningSample", image="jpg", caption="txt")
    full = checked(root, "content").findings
    assert [each.code for each in full] == ["WDS145"]
    sampled = checked(root, "content,load", sample="6%", seed=1).findings
    assert full[0] in sampled


def test_first_and_last_frame_of_a_file_of_a_robot_dataset_are_loaded(tmp_path: Path) -> None:
    root = make_v30(tmp_path / "set")
    prepare(root, None, prepare_request())
    report = checked(root)
    assert (report.levels, report.skipped, report.findings) == (("structure", "load"), (), ())

    min((tmp_path / "set" / "videos").rglob("*.mp4")).write_bytes(b"x" * 300)
    codes = Counter(each.code for each in checked(root, again=True).findings)

    assert codes == {"WDS233": 1, "WDS171": 2}


def write_blend(folder: Path, node: str) -> str:
    (folder / "blend.yaml").write_text(f"splits: {{train: {node}}}\n")
    return str(folder / "blend.yaml")


def test_entries_of_a_blend_are_of_one_type(tmp_path: Path) -> None:
    make(tmp_path / "a", lambda _: {"jpg": JPEG, "txt": b"a dog"}, "CaptioningSample", image="jpg", caption="txt")
    make(tmp_path / "b", lambda _: {"jpg": JPEG, "cls": b"1"}, "ImageClassificationSample", image="jpg", label="cls")
    unlike = checked(write_blend(tmp_path, "{blend_epochized: [{path: a}, {path: b}]}"))

    assert [(each.code, each.severity) for each in unlike.findings] == [("WDS526", "error")]
    assert "CaptioningSample and ImageClassificationSample" in unlike.findings[0].message
    with pytest.raises(WdsctlError, match="cannot be batched together"):
        list(get_loader(get_train_dataset(tmp_path / "blend.yaml", batch_size=16, repeat=False)))
    assert found(checked(write_blend(tmp_path, "{blend: [{path: a}, {path: a}]}"))) == {}
    assert found(checked(write_blend(tmp_path, "{blend: [{path: a}, {path: b, weight: 0}]}"))) == {}
    order = "{blend_epochized: [{path: a, split_part: train}, {path: b, split_part: train}]}"
    (tmp_path / "blend.yaml").write_text(f"splits: {{train: {{path: a}}, val: {order}}}\n")
    assert [each.severity for each in checked(str(tmp_path / "blend.yaml")).findings] == ["warning"]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"png": GRAY}, "only the first has 'jpg'"),
        ({"jpg": JPEG, "pt": stored(torch.zeros(3, 4))}, "only the second has 'pt'"),
        ({"jpg": stored([1])}, ""),  # a sample that cannot be loaded is a finding of its dataset
    ],
)
def test_crude_samples_of_a_blend_have_the_same_fields(tmp_path: Path, parts: Parts, reason: str) -> None:
    make(tmp_path / "a", lambda _: {"jpg": JPEG})
    make(tmp_path / "b", lambda _: parts)

    report = checked(write_blend(tmp_path, "{blend_epochized: [{path: a}, {path: b}]}"))

    assert [each.severity for each in report.findings if each.code == "WDS526"] == (["error"] if reason else [])
    assert reason in "".join(each.message for each in report.findings)
    if reason:
        # Only a cooker reads stores, so samples with stores are not batched as they are.
        of_cooker = write_blend(tmp_path, "{blend_epochized: [{path: a}, {path: b, aux: {more: a}}]}")
        assert found(checked(of_cooker)) == {}


def test_tensors_of_entries_of_a_blend_are_alike(tmp_path: Path) -> None:
    make(tmp_path / "a", lambda _: {"pt": stored(torch.zeros(3))})
    make(tmp_path / "b", lambda _: {"pt": stored(torch.zeros(3, dtype=torch.int64))})

    report = checked(write_blend(tmp_path, "{blend_epochized: [{path: a}, {path: b}]}"))

    assert [(each.code, each.severity) for each in report.findings] == [("WDS526", "error")]
    assert "dtypes: torch.float32 and torch.int64" in report.findings[0].message


def test_samples_of_a_join_are_batched_as_joined(tmp_path: Path) -> None:
    make(tmp_path / "a", lambda _: {"jpg": JPEG})
    a_dataset(tmp_path / "b", SAMPLES // 2, parts=lambda _: {"pt": stored(torch.zeros(3))}, shard_samples=4)
    report = checked(write_blend(tmp_path, "{join: [{path: a}, {path: b, nonmatch: none}]}"))

    assert found(report) == {("WDS506", ""): SAMPLES // 2}
    assert f"{SAMPLES // 2} samples of {SAMPLES} loaded" in report.findings[0].message
    assert "'pt' is a tensor in some samples and None in others" in report.findings[0].message
    assert found(checked(write_blend(tmp_path, "{join: [{path: a}, {path: b, nonmatch: skip}]}"))) == {}
    refused = checked(write_blend(tmp_path, "{join: [{path: a}, {path: b}]}"))
    assert [(each.code, each.severity) for each in refused.findings] == [("WDS607", "error")]


def test_members_of_a_join_need_not_be_batched_by_themselves(tmp_path: Path) -> None:
    make(tmp_path / "a", lambda i: {"jpg" if i < SAMPLES // 2 else "png": JPEG})
    a_dataset(tmp_path / "b", SAMPLES // 2, parts=lambda _: {"cls": b"1"})
    blend = write_blend(tmp_path, "{join: {a: {path: a}, b: {path: b, nonmatch: skip}}}")
    assert found(checked(blend)) == {}
    assert found(checked(write_blend(tmp_path, "{path: a}"))) == {("WDS536", ""): 1}
