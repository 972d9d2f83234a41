"""What labels are drawn on, and sizes of images, masks and JSON that disagree."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import wdsctl
from tests.build import a_dataset
from wdsctl import Dataset
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.core.validate.validate import validate

DETECTION = {"image": "jpg", "boxes": "json[boxes]", "box_format": "json[box_format]"}
BOXES = {"boxes": [[1, 20, 2, 2]], "box_format": "xywh"}


def an_image(width: int, height: int, orientation: int = 0, form: str = "JPEG") -> bytes:
    exif = Image.Exif()
    if orientation:
        exif[0x112] = orientation
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, form, exif=exif)
    return file.getvalue()


def a_labelled(root: Path, labels: Any = BOXES, orientation: int = 6, mask: tuple[int, int] | None = None) -> str:
    parts = {"jpg": an_image(32, 24, orientation), "json": json.dumps(labels).encode()}
    if mask:
        parts["seg.png"] = an_image(*mask, form="PNG")
    return a_dataset(root, {"0.tar": {f"{i}.{name}": data for i in range(3) for name, data in parts.items()}})


def a_prepared(root: str, drawn_on: Any = "", *, masks: bool = False) -> list[tuple[str, str]]:
    """Prepare a dataset; returns the different findings of `prepare` about sizes, and of `validate`."""
    kind, fields = "DetectionSample", DETECTION
    if masks:
        kind, fields = "SegmentationSample", {"image": "jpg", "mask": "seg.png"}
    report = prepare(root, None, PrepareRequest(sample_type=kind, field_map=fields, drawn_on=drawn_on))
    checked = validate(root, ValidateRequest(levels=("schema",)))
    assert report.index is not None
    found = ((each.code, each.message) for each in (*report.index.findings, *checked.findings))
    return [each for each in dict.fromkeys(found) if each[0] in ("WDS163", "WDS170")]


def rule_of(root: str) -> str:
    return load_config(locate(root).config_path).drawn_on


@pytest.mark.parametrize(
    ("size", "drawn_on"), [((24, 32), "shown"), ((32, 24), "stored"), ((40, 24), "shown"), ((16, 12), "shown")]
)
def test_size_of_mask_decides_what_it_is_drawn_on(tmp_path: Path, size: tuple[int, int], drawn_on: str) -> None:
    source = a_labelled(tmp_path, {}, mask=size)

    findings = a_prepared(source, masks=True)

    assert rule_of(source) == drawn_on
    sizes = f"image 32 x 24 (EXIF orientation 6: 24 x 32), mask {size[0]} x {size[1]}"
    is_wrong = size not in ((24, 32), (32, 24))
    expected = [
        f"the mask has another size than its image, in 3 of 3 samples that were examined, such as 0: {sizes}",
        f"the mask has another size than its image: {sizes}",
    ]
    assert findings == ([("WDS170", text) for text in expected] if is_wrong else [])


@pytest.mark.parametrize("orientation", [0, 1, 9])
def test_upright_images_and_invalid_orientations_have_one_size(tmp_path: Path, orientation: int) -> None:
    source = a_labelled(tmp_path, {**BOXES, "width": 32, "height": 24}, orientation)

    assert a_prepared(source) == []
    assert rule_of(source) == "shown"


@pytest.mark.parametrize(("size", "drawn_on"), [((24, 32), "shown"), ((32, 24), "stored")])
def test_size_that_voc_states_decides_what_boxes_are_drawn_on(
    tmp_path: Path, size: tuple[int, int], drawn_on: str
) -> None:
    width, height = map(str, size)
    source = a_labelled(tmp_path, {**BOXES, "boxes": [], "annotation": {"size": {"width": width, "height": height}}})

    assert a_prepared(source) == []
    assert rule_of(source) == drawn_on


def test_stated_sizes_that_fit_no_image_are_counted(tmp_path: Path) -> None:
    stored = a_labelled(tmp_path / "a", {**BOXES, "width": 32, "height": 24})
    other = a_labelled(tmp_path / "b", {**BOXES, "width": 640, "height": 480}, 0)

    assert a_prepared(stored)[0][1].startswith(
        "the stated size is that of the image as stored, but labels are drawn on it as shown, in 3 of 3 "
    )
    assert rule_of(stored) == "shown"
    assert a_prepared(other)[1][1] == ("the stated size is not that of the image: image 32 x 24, stated 640 x 480")


def test_boxes_are_checked_in_the_image_that_they_are_drawn_on(tmp_path: Path) -> None:
    shown, stored = a_labelled(tmp_path / "a", {**BOXES, "boxes": [[1, 20, 2, 10]]}), a_labelled(tmp_path / "b")
    Path(stored).joinpath("0.tar").write_bytes(Path(shown).joinpath("0.tar").read_bytes())

    assert a_prepared(shown) == []
    ((code, message),) = a_prepared(stored, "stored")
    assert (code, "outside of the image of 32 x 24" in message) == ("WDS163", True)


def test_dataset_gets_no_line_until_an_option_sets_it(tmp_path: Path) -> None:
    source = a_labelled(tmp_path)
    a_prepared(source)
    path = Path(locate(source).config_path)
    text = path.read_text()
    path.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("drawn_on")))

    prepare(source, None, PrepareRequest(redetect=True, accept_type=True))
    assert rule_of(source) == ""
    found = [each.message for each in validate(source, ValidateRequest(levels=("schema",))).findings]
    assert sum("dataset.yaml does not say" in text for text in found) == 3
    before = load_config(str(path))
    prepare(source, None, PrepareRequest(drawn_on="stored"))
    after = load_config(str(path))
    assert (after.drawn_on, after.field_map) == ("stored", before.field_map)


@pytest.mark.parametrize(
    ("form", "size", "drawn_on"),
    [("voc", (24, 32), "shown"), ("voc", (32, 24), "stored"), ("coco", (24, 32), "shown"), ("coco", (32, 24), "shown")],
)
def test_annotation_formats_decide_what_boxes_are_drawn_on(
    tmp_path: Path, form: str, size: tuple[int, int], drawn_on: str
) -> None:
    width, height = size
    raw, source = tmp_path / "raw", str(tmp_path / "a")
    names = ("JPEGImages", "Annotations") if form == "voc" else ("images", "annotations")
    images, notes = (raw / name for name in names)
    images.mkdir(parents=True)
    notes.mkdir()
    for i in range(2):
        (images / f"{i}.jpg").write_bytes(an_image(32, 24, 6))
        stated = f"<size><width>{width}</width><height>{height}</height><depth>1</depth></size>"
        box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
        if form == "voc":
            (notes / f"{i}.xml").write_text(f"<annotation>{stated}<object><name>a</name>{box}</object></annotation>")
    boxes = [{"id": i, "image_id": i, "category_id": 1, "bbox": [1, 1, 9, 9]} for i in range(2)]
    files = [{"id": i, "file_name": f"{i}.jpg", "width": width, "height": height} for i in range(2)]
    if form == "coco":
        content = {"images": files, "annotations": boxes, "categories": [{"id": 1, "name": "a"}]}
        (notes / "instances.json").write_text(json.dumps(content))

    report = prepare(str(raw), source, PrepareRequest())

    assert report.index is not None
    found = [each for each in report.index.findings if each.code == "WDS170"]
    assert (rule_of(source), bool(found)) == (drawn_on, (form, size) == ("coco", (32, 24)))
    shape = (32, 24) if drawn_on == "shown" else (24, 32)
    assert Dataset(source)[0].image.shape[-2:] == shape


def test_robots_have_no_labels_on_images(tmp_path: Path) -> None:
    from wdsctl.core.prepare.checks import sample_options

    assert sample_options(PrepareRequest(drawn_on="shown"))["--drawn-on"]
    assert not sample_options(PrepareRequest())["--drawn-on"]


def structure_findings(root: str) -> list[tuple[str, int | None]]:
    """The findings about sizes of `validate` without levels."""
    return [(each.message, each.count) for each in validate(root, ValidateRequest()).findings if each.code == "WDS170"]


@pytest.mark.parametrize(
    ("mask", "drawn_on", "text"),
    [
        ((40, 24), "shown", "the mask has another size than its image"),
        ((32, 24), "shown", "the mask fits the image as stored, which has an EXIF orientation, and not as it is"),
        ((24, 32), "stored", "the mask fits the image as shown, which has an EXIF orientation, and not as it is"),
        ((24, 32), "shown", ""),
        ((32, 24), "stored", ""),
        (None, "", "the image has an EXIF orientation, and dataset.yaml does not say what its labels are drawn on"),
    ],
)
def test_structure_level_compares_sizes_of_media_facts(
    tmp_path: Path, mask: tuple[int, int] | None, drawn_on: str, text: str
) -> None:
    source = a_labelled(tmp_path, {} if mask else BOXES, mask=mask)
    a_prepared(source, drawn_on, masks=mask is not None)
    path = Path(locate(source).config_path)
    if not drawn_on:
        path.write_text("\n".join(each for each in path.read_text().splitlines() if not each.startswith("drawn_on")))
    assert structure_findings(source) == []  # without media facts

    wdsctl.index(source, media=True, workers=1)

    found = structure_findings(source)
    assert [count for _, count in found] == ([3] if text else [])
    assert all(each.startswith(text) and ", in 3 samples, such as 0: image 32 x 24" in each for each, _ in found)
    schema = validate(source, ValidateRequest(levels=("schema",))).findings
    assert not any(", in 3 samples" in each.message for each in schema)


def test_media_facts_of_first_alternative_count(tmp_path: Path) -> None:
    mask = an_image(32, 24, form="PNG")
    other = an_image(8, 8, form="PNG")
    parts = {"a.jpg": an_image(32, 24), "a.png": other, "a.seg.png": mask, "b.png": other, "b.seg.png": mask}
    source = a_dataset(tmp_path, {"0.tar": parts})
    fields = {"image": "jpg,png", "mask": "seg.png"}
    prepare(source, None, PrepareRequest(sample_type="SegmentationSample", field_map=fields))
    wdsctl.index(source, media=True, workers=1)

    [(message, count)] = structure_findings(source)

    assert (count, "such as b: image 8 x 8, mask 32 x 24" in message) == (1, True)
