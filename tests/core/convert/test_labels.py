"""Boxes and masks follow their pictures, or `convert` refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.build import a_dataset
from tests.core.conversions import content, convert_to
from wdsctl.core.convert import transcode, unit
from wdsctl.core.convert.labels import LabelsCannotFollow, SeenNumbers, check_many_numbers
from wdsctl.core.convert.parts import PartRules, parse_image
from wdsctl.core.convert.transcode import changed_picture_sizes
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

BOX = {"box_format": "xywh", "boxes": [[40, 40, 60, 60]], "width": 320, "height": 240}
DETECTION = {"image": "jpg", "boxes": "json[boxes]", "box_format": "json[box_format]"}


def a_picture(width: int = 320, height: int = 240, orientation: int = 0, form: str = "JPEG") -> bytes:
    exif = Image.Exif()
    if orientation:
        exif[0x112] = orientation
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, form, exif=exif)
    return file.getvalue()


def a_mask(width: int = 320, height: int = 240) -> bytes:
    ids = np.zeros((height, width), np.uint8)
    ids[40:100, 40:100] = 200
    mask = Image.fromarray(ids)
    mask.putpalette([0] * 600 + [255, 0, 0])
    file = io.BytesIO()
    mask.save(file, "PNG")
    return file.getvalue()


def a_source(root: Path, labels: Any = BOX, drawn_on: str = "", **parts: bytes) -> str:
    """A dataset of two samples without a dataset.yaml, or with `drawn_on` in one."""
    parts = {"jpg": a_picture(), "json": json.dumps(labels).encode(), **parts}
    samples = {f"{i}.{name.replace('_', '.')}": data for i in range(2) for name, data in parts.items()}
    source = a_dataset(root, {"0.tar": samples})
    if drawn_on:
        prepare(source, None, PrepareRequest(sample_type="DetectionSample", field_map=DETECTION))
        path = Path(locate(source).config_path)
        lines = [line for line in path.read_text().splitlines() if not line.startswith("drawn_on")]
        path.write_text("\n".join([*lines, f"drawn_on: {drawn_on}", ""]))
    return source


def labels_of(root: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(content(root)["0.json"])
    return value


def test_boxes_shrink_with_their_picture(tmp_path: Path) -> None:
    convert_to(tmp_path / "b", a_source(tmp_path / "a"), image=parse_image("", 160))

    assert labels_of(tmp_path / "b") == {**BOX, "boxes": [[20, 20, 30, 30]], "width": 160, "height": 120}


def test_labels_stay_with_option_or_if_nothing_changes(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", {"bbox": [1, 2, 3, 4]})

    convert_to(tmp_path / "b", source, image=parse_image("", 160, labels="keep"))
    convert_to(tmp_path / "c", source, image=parse_image("webp:80", 320))

    assert labels_of(tmp_path / "b") == labels_of(tmp_path / "c") == {"bbox": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("drawn_on", "orientation", "box"),
    [
        ("shown", 6, [40, 40, 60, 60]),
        ("stored", 6, [140, 40, 60, 60]),
        ("stored", 0, [40, 40, 60, 60]),
        ("stored", 9, [40, 40, 60, 60]),  # no orientation of EXIF: upright
    ],
)
def test_boxes_turn_with_picture_if_drawn_on_stored_one(
    tmp_path: Path, drawn_on: str, orientation: int, box: list[int]
) -> None:
    source = a_source(tmp_path / "a", drawn_on=drawn_on, jpg=a_picture(orientation=orientation))

    convert_to(tmp_path / "b", source, image=parse_image("png"))

    assert labels_of(tmp_path / "b")["boxes"] == [box]
    size = Image.open(io.BytesIO(content(tmp_path / "b")["0.png"])).size
    assert size == ((240, 320) if orientation == 6 else (320, 240))
    assert load_config(locate(str(tmp_path / "b")).config_path).drawn_on == drawn_on


def test_labels_on_the_shown_picture_stay_when_it_is_turned(tmp_path: Path) -> None:
    labels = {**BOX, "words": [[1, 2, 3, 4]]}  # of a form that cannot follow
    picture = a_picture(orientation=6)
    source = a_source(tmp_path / "a", labels, "shown", jpg=picture, seg_png=a_mask(240, 320))

    convert_to(tmp_path / "b", source, image=parse_image("png"))

    assert labels_of(tmp_path / "b") == {**labels, "width": 240, "height": 320}
    assert content(tmp_path / "b")["0.seg.png"] == a_mask(240, 320)


def test_turning_is_refused_without_drawn_on(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", jpg=a_picture(orientation=6))

    with pytest.raises(LabelsCannotFollow) as refused:
        convert_to(tmp_path / "b", source, image=parse_image("png"))

    assert (refused.value.code, refused.value.where) == ("WDS348", "sample 0")
    assert "`--drawn-on shown`" in refused.value.hint
    assert "`--orientation keep`" in refused.value.hint
    assert "`--labels keep`" in refused.value.hint
    convert_to(tmp_path / "b", source, image=parse_image("png", orientation="keep"))
    assert labels_of(tmp_path / "b") == BOX


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("json", b'{"bbox": [1, 2, 3, 4]}'),
        ("boxes_npy", b"\x93NUMPY"),
        ("xml", b"<annotation><object><bndbox><xmin>1</xmin></bndbox></object></annotation>"),
        ("txt", b"find it: <box>(1,2),(3,4)</box>"),
        ("json", b'{"result": "{\\"left\\": 14, \\"top\\": 13}"}'),
        ("mask_jpg", b"\xff\xd8"),
        ("seg_png", a_mask(321, 240)),
    ],
)
def test_labels_that_cannot_follow_are_refused_before_anything_is_written(
    tmp_path: Path, name: str, data: bytes
) -> None:
    source = a_source(tmp_path / "a", {}, "", **{name: data})

    with pytest.raises(LabelsCannotFollow, match=name.replace("_", ".")):
        convert_to(tmp_path / "b", source, image=parse_image("", 160), dry_run=True)
    with pytest.raises(LabelsCannotFollow, match=name.replace("_", ".")):
        convert_to(tmp_path / "b", source, image=parse_image("", 160))

    assert not [*tmp_path.glob("b/**/*.tar"), *tmp_path.glob("b/**/plan.sqlite")]


def test_geometry_in_a_later_sample_is_refused_too(tmp_path: Path) -> None:
    parts = {"jpg": a_picture(), "json": b"{}"}
    samples = {f"{i:02}.{name}": data for i in range(12) for name, data in parts.items()}
    source = a_dataset(tmp_path / "a", {"0.tar": {**samples, "11.json": b'{"bbox": [1, 2, 3, 4]}'}})

    with pytest.raises(LabelsCannotFollow) as refused:
        convert_to(tmp_path / "b", source, image=parse_image("", 160))

    assert refused.value.where == "sample 11"


def a_source_of_many(root: Path, first: int, labels: Any, count: int = 80) -> str:
    """A dataset of 80 samples whose samples from `first` on have these labels of the sample's number."""
    samples: dict[str, Any] = {}
    picture = a_picture()
    for i in range(count):
        own = labels(i) if i >= first else {}
        samples |= {f"{i:02}.jpg": picture, f"{i:02}.json": json.dumps({"caption": "a dog", **own}).encode()}
    return a_dataset(root, {"0.tar": samples})


@pytest.mark.parametrize("first", [0, 45, 79])
@pytest.mark.parametrize(
    "labels",
    [
        lambda i: {"extent": [40 + i, 30, 200, 90]},
        lambda i: {"things": [[40 + i, 30, 200, 90], [4, 3, 120, 110]]},
        lambda i: {"x1": 40 + i, "y1": 30, "x2": 200, "y2": 90},
        lambda i: {"xs": [200 - i, 100], "ys": [30, 200]},
        lambda i: {"price": {"value": [900, i]}, "thing": {"value": [40 + i, 30]}},
        lambda i: {"7": {"value": [40 + i, 30]}, f"{i}": {"value": [200, 30 + i]}},
    ],
)
def test_numbers_drawn_on_pictures_are_refused_in_whichever_samples_they_begin(
    first: int, labels: Any, tmp_path: Path
) -> None:
    source = a_source_of_many(tmp_path / "a", first, labels)

    with pytest.raises(LabelsCannotFollow, match="like points or boxes, such as"):
        convert_to(tmp_path / "b", source, image=parse_image("", 160))
    assert not [*tmp_path.glob("b/**/*.tar")]


@pytest.mark.parametrize(
    ("other", "drawn", "options"),
    [
        ([0, 0, 0, 0], [40, 30, 200, 90], {}),
        ([1, 2, 0, 1], [40, 30, 200, 90], {"order": "shuffle", "seed": 3}),
        ([900, 30, 200, 90], [40, 30, 200, 90], {"shard_samples": 20}),
        ([2019, 2024], [140, 130], {"shard_samples": 50, "workers": 2}),
        ("press(enter)", "click(140, 130)", {}),
    ],
)
def test_numbers_drawn_only_in_samples_that_are_not_looked_at_first_are_refused(
    other: Any, drawn: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    def labels(i: int) -> Any:
        numbers = [drawn[0] + i % 20, *drawn[1:]] if isinstance(drawn, list) else drawn.replace("140", f"{140 + i}")
        return {"about": {"value": numbers if i >= 120 and i % 20 > 3 else other}}

    source = a_source_of_many(tmp_path / "a", 0, labels, 160)

    with pytest.raises(LabelsCannotFollow, match="value looks like points or boxes, such as"):
        convert_to(tmp_path / "b", source, image=parse_image("", 160), **options)
    assert not [*tmp_path.glob("b/**/*.tar"), *tmp_path.glob("b/**/plan.sqlite")]


def test_many_numbers_are_judged_before_their_unit_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    def judge(request: Any, seen: SeenNumbers) -> None:
        check_many_numbers(request, seen)
        held.append(seen.numbers.total())

    monkeypatch.setattr(unit, "check_many_numbers", judge)
    source = a_source_of_many(tmp_path / "a", 0, lambda i: {"embedding": [i - each for each in range(200)]})

    convert_to(tmp_path / "b", source, image=parse_image("", 160))
    assert max(held) < 10_000 < 80 * 200


def test_destination_of_late_refusal_takes_the_advised_option(tmp_path: Path) -> None:
    source = a_source_of_many(tmp_path / "a", 79, lambda i: {"extent": [40 + i, 30, 200, 90]})
    for _ in range(2):
        with pytest.raises(LabelsCannotFollow):
            convert_to(tmp_path / "b", source, image=parse_image("", 160), shard_samples=20, workers=1)

    assert not [*tmp_path.glob("b/**/*.tar")]
    convert_to(tmp_path / "b", source, image=parse_image("", 160, labels="keep"), shard_samples=20)
    assert json.loads(content(tmp_path / "b")["79.json"])["extent"] == [119, 30, 200, 90]


def test_numbers_of_a_primary_are_judged_with_pictures_of_its_media(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def sizes(data: bytes, image: Any) -> set[tuple[int, int]]:
        read.append(data)
        return changed_picture_sizes(data, image)

    monkeypatch.setattr(transcode, "changed_picture_sizes", sizes)
    options: dict[str, Any] = {"layout": "polylithic", "media": ("jpg",), "image": parse_image("", 160), "workers": 1}

    drawn = a_source_of_many(tmp_path / "a", 45, lambda i: {"extent": [40 + i, 30, 200, 90]})
    with pytest.raises(LabelsCannotFollow, match="extent looks like points or boxes, such as"):
        convert_to(tmp_path / "b", drawn, **options)
    read.clear()
    convert_to(tmp_path / "d", a_source_of_many(tmp_path / "c", 99, dict), **options)
    assert len(read) <= 32


def test_positions_that_are_not_on_pictures_stay(tmp_path: Path) -> None:
    def labels(i: int) -> Any:  # the numbers of `statistic` lie in the corner, of which few samples tell nothing
        return {"pos_x": i / 3, "pos_y": -i / 2, "votes": [1, 2, 0, i], "statistic": [i, i]}

    source = a_source_of_many(tmp_path / "a", 45, labels)

    convert_to(tmp_path / "b", source, image=parse_image("", 160))

    assert json.loads(content(tmp_path / "b")["78.json"])["pos_x"] == 26


def test_report_lists_numbers_left_unchanged_next_to_changed_pictures(tmp_path: Path) -> None:
    labels = {"views": [7, 3], "score": 0.5, "image_size": [320, 240], "caption": "two dogs", "lens": {"k": [1, 2, 3]}}
    source = a_source(tmp_path / "a", labels, txt=b"3 1 4")
    shrunk = parse_image("", 160)

    planned = convert_to(tmp_path / "b", source, dry_run=True, image=shrunk)
    done = convert_to(tmp_path / "b", source, image=shrunk)
    again = convert_to(tmp_path / "b", source, image=shrunk)
    same = convert_to(tmp_path / "c", source, image=parse_image("", 320))

    assert [note.partition("pixels: ")[2] for note in done.notes] == ["json: image_size, lens.k, score, views; txt"]
    assert planned.notes == again.notes == done.notes
    assert not same.notes


def test_report_lists_number_of_last_sample_alone(tmp_path: Path) -> None:
    def labels(i: int) -> Any:
        number = {"column": 7} if i == 79 else {}
        return {"caption": "two dogs, 3 cats, 1990", "faces": [{"name": "a dog", **number}]}

    source, shrunk = a_source_of_many(tmp_path / "a", 0, labels), parse_image("", 160)

    alone = convert_to(tmp_path / "b", source, image=shrunk, shard_samples=10)
    together = convert_to(tmp_path / "c", source, image=shrunk, workers=2)

    assert alone.notes == together.notes
    assert [note.rpartition(": json: ")[2] for note in alone.notes] == ["faces[*].column"]


def test_masks_keep_their_ids(tmp_path: Path) -> None:
    convert_to(tmp_path / "b", a_source(tmp_path / "a", {}, seg_png=a_mask()), image=parse_image("", 160))

    mask = Image.open(io.BytesIO(content(tmp_path / "b")["0.seg.png"]))
    ids = np.asarray(mask)
    assert (mask.mode, mask.size, set(np.unique(ids).tolist())) == ("P", (160, 120), {0, 200})
    assert ids.nonzero()[0].min() == 20
    assert ids.nonzero()[1].max() == 49


def test_mask_of_dataset_yaml_cannot_be_interpolated(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", {}, seg_png=a_mask())
    fields = {"image": "jpg", "mask": "seg.png"}
    prepare(source, None, PrepareRequest(sample_type="SegmentationSample", field_map=fields))

    with pytest.raises(UsageError, match=r"--image-parts selects seg.png, a mask"):
        convert_to(tmp_path / "b", source, image=parse_image("", 160, parts=("jpg", "*.png")))


def test_several_pictures_that_change_alike_have_one_geometry(tmp_path: Path) -> None:
    alike = a_source(tmp_path / "a", png=a_picture(form="PNG"))
    other = a_source(tmp_path / "b", png=a_picture(100, 400, form="PNG"))

    convert_to(tmp_path / "c", alike, image=parse_image("", 160))
    assert labels_of(tmp_path / "c")["boxes"] == [[20, 20, 30, 30]]
    with pytest.raises(LabelsCannotFollow, match="change differently"):
        convert_to(tmp_path / "d", other, image=parse_image("", 160))


def test_labels_in_a_primary_are_refused_if_their_pictures_change(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a")
    options: dict[str, Any] = {"layout": "polylithic", "media": ("jpg",)}

    with pytest.raises(LabelsCannotFollow, match="media dataset"):
        convert_to(tmp_path / "b", source, image=parse_image("", 160), **options)
    convert_to(tmp_path / "c", source, image=parse_image("webp", 0), **options)


def test_renamed_geometry_is_still_geometry(tmp_path: Path) -> None:
    rows = json.dumps([[1, 2, 3, 4]]).encode()
    source = a_source(tmp_path / "a", {}, drawn_on="", rects_json=rows)
    fields = {"image": "jpg", "boxes": "rects.json"}
    prepare(source, None, PrepareRequest(sample_type="DetectionSample", field_map=fields))

    rules = PartRules(rename=(("rects.json", "all.json"),))
    with pytest.raises(LabelsCannotFollow, match=r"all.json"):
        convert_to(tmp_path / "b", source, image=parse_image("", 160), parts=rules)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("txt", b"Car 0.00 0 -1.57 20.0 30.1 50.0 60.0 1.5 1.6 3.9 1.0 1.5 20 -1.5\n"),  # KITTI
        ("txt", b"377,117,463,117,465,130,378,130,Genaxis Theatre\r\n"),  # ICDAR
        ("txt", b"10 20 30.5 20 30.5 40 10 40 plane 0\n\n"),  # DOTA
        ("txt", b"imagesource:GoogleEarth\ngsd:0.14\n10 20 30.5 20 30.5 40 10 40 plane 0\n"),
        ("txt", b"1,2,3,4,5,6,7,8,###\n1,2,3,4,5,6,7,8,24\n"),  # ICDAR, with a number as text
        ("csv", b"1,1,12,84,97,109,1,7,0.5\n2,1,14,85,97,109,1,7,1\n"),  # MOT, annotated
        ("csv", b"1,-1,94.2,47.5,71.2,174.8,67.5,-1,-1,-1\n"),  # MOT, detected
        ("csv", b"frame,id,xmin,ymin,xmax,ymax\n1,2,10,20,30,40\n"),
        ("csv", b"name,px,py\nnose,10,20\n"),
        ("tsv", b"left\ttop\twidth\theight\n1\t2\t3\t4\n"),
        ("yaml", b"objects:\n- bbox: [10, 20, 110, 120]\n  label: dog\n"),
        ("jsonl", b'{"a": 1}\n{"box_format": "xyxy", "bbox": [1, 2, 3, 4]}\n'),
        ("shape_geojson", b"{}"),
    ],
)
def test_rows_of_boxes_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    source = a_source(tmp_path / "a", {"caption": "a"}, "", **{name: data})

    with pytest.raises(LabelsCannotFollow, match=name.replace("_", ".")):
        convert_to(tmp_path / "b", source, image=parse_image("", 160))


def test_rows_of_yolo_stay_unless_their_picture_turns(tmp_path: Path) -> None:
    rows = b"0 0.5 0.4 0.2 0.1\n3 0.25 0.5 0.1 0.3\n"
    turned = a_source(tmp_path / "a", {}, "stored", jpg=a_picture(orientation=6), txt=rows)
    convert_to(tmp_path / "b", turned, image=parse_image("", 160, orientation="keep"))
    assert content(tmp_path / "b")["0.txt"] == rows

    with pytest.raises(LabelsCannotFollow, match="txt cannot follow: it has rows of YOLO"):
        convert_to(tmp_path / "c", turned, image=parse_image("png"))


@pytest.mark.parametrize(
    "data",
    [
        b"sizes 36 37 38 39",
        b"call 1 2 3 4 5 6 7 8 now",
        b"1 2 3 4 5 6 7 8 9",
        b"x1, a box\n2",
        b"t,x,y,z\n0,140,130,220\n1,200,90,20\n",
        b"at 140 130 220 200 of the Main Street\n",
        b"0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9\n1,2,3,4,5,6,7,8,9\n",
    ],
)
def test_texts_with_numbers_stay(tmp_path: Path, data: bytes) -> None:
    source = a_source(tmp_path / "a", {"caption": "a"}, txt=data, jsonl=b'{"a": 1}\n', yaml=b"1: [a, 2]\nwidth: 320\n")

    convert_to(tmp_path / "b", source, image=parse_image("", 160))

    assert content(tmp_path / "b")["0.txt"] == data


def a_float_map() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((240, 320), np.float32)).save(file, "TIFF")
    return file.getvalue()


def an_array(shape: tuple[int, ...], name: str = "", value: float = 0) -> bytes:
    """A file npy, or npz with one array of this name, whose values differ by 1 within a row."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {name: np.zeros(shape, np.uint8) if not value else value + np.indices(shape)[-1]}
    np.savez(file, **arrays) if name else np.save(file, arrays[""])
    return file.getvalue()


def an_array_after_objects() -> bytes:
    """An npz whose first array has objects, which only pickle reads."""
    file = io.BytesIO()
    np.savez(file, names=np.array([{"a": 1}], object), pose=90.5 + np.indices((17, 3))[-1])
    return file.getvalue()


MAPS = {
    "depth_png": a_picture(form="PNG"),
    "second_png": a_mask(),
    "matte_webp": a_picture(form="WEBP"),
    "seg_npy": an_array((240, 320)),
    "range_tif": a_float_map(),
    "flow_npy": an_array((2, 240, 320)),
    "npz": an_array((240, 320), "depth"),
}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *MAPS.items(),
        ("xml", b"<alto><String HPOS='20' VPOS='10' WIDTH='100' HEIGHT='50'/></alto>"),
        ("points_npy", an_array((5, 2))),
        ("npz", an_array((5, 4), "boxes")),
        ("npz", an_array((17, 3), "keypoints")),
    ],
)
def test_maps_arrays_and_layouts_of_pages_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    source = a_source(tmp_path / "a", {"caption": "a"}, "", **{name: data})

    with pytest.raises(LabelsCannotFollow) as refused:
        convert_to(tmp_path / "b", source, image=parse_image("", 160))

    assert f"{name.replace('_', '.')} cannot follow" in str(refused.value)


@pytest.mark.parametrize("name", [*MAPS, "seg_png"])
def test_maps_in_a_primary_are_refused_if_their_pictures_change(tmp_path: Path, name: str) -> None:
    source = a_source(tmp_path / "a", {"caption": "a"}, "", **{name: MAPS.get(name, a_mask())})
    options: dict[str, Any] = {"layout": "polylithic", "media": ("jpg",)}

    with pytest.raises(LabelsCannotFollow, match=name.replace("_", ".")):
        convert_to(tmp_path / "b", source, image=parse_image("", 160), **options)
    convert_to(tmp_path / "c", source, image=parse_image("", 400), **options)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("json", b'{"action": {"coordinate": [140, 130]}}'),
        ("json", b'{"action": "click(140, 130)"}'),
        ("json", b'{"outline": "M 140 130 L 220 200 Z"}'),
        ("json", b'{"sign": {"col_start": 140, "row_start": 130, "col_end": 220, "row_end": 200}}'),
        ("json", b'{"sign": {"l": 140, "t": 130, "r": 220, "b": 200}}'),
        ("json", b'{"min_r": 130, "min_c": 140, "max_r": 200, "max_c": 220}'),
        ("json", b'{"pose": [140, 130, 0.9, 220, 200, 0.8, 150, 190, 2]}'),
        ("txt", b"dog 0.93 140 130 220 200\ntraffic light 0.5 20 30 60 90\n"),
        ("csv", b"a,b,c,d,class\n140,130,220,200,dog\n"),
        ("txt", b"140 130 200 170\n"),
        ("gt_npy", an_array((3, 4), value=90)),
        ("npz", an_array((17, 3), "pose", value=90.5)),
        ("npz", an_array_after_objects()),
        ("jsonl", b'{"left_eye": [140, 130]}\n'),
        ("yaml", b"left_eye: [140, 130]\n"),
    ],
)
def test_numbers_that_look_drawn_in_the_first_samples_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    source = a_source(tmp_path / "a", {"caption": "a"}, "", **{name: data})
    media: dict[str, Any] = {"layout": "polylithic", "media": ("jpg",)}

    with pytest.raises(
        LabelsCannotFollow, match=r"points or boxes, such as \[.*\] on a picture of 320 x 240"
    ) as refused:
        convert_to(tmp_path / "b", source, image=parse_image("", 160))
    with pytest.raises(LabelsCannotFollow):
        convert_to(tmp_path / "c", source, image=parse_image("", 160), **media)

    assert (refused.value.where, "`--labels keep`" in refused.value.hint) == ("sample 0", True)


@pytest.mark.parametrize("name", ["target_pth", "depth_exr", "pkl", "label_bin"])
def test_parts_that_cannot_be_read_are_refused(tmp_path: Path, name: str) -> None:
    source = a_source(tmp_path / "a", {"caption": "a"}, "", **{name: b"v/1\x01\x00"})

    with pytest.raises(LabelsCannotFollow, match=name.replace("_", ".")):
        convert_to(tmp_path / "b", source, image=parse_image("", 160))


def test_boxes_without_a_format_follow_with_the_option_of_the_hint(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", {"boxes": [[40, 40, 60, 60]]})

    with pytest.raises(LabelsCannotFollow) as refused:
        convert_to(tmp_path / "b", source, image=parse_image("", 160))
    assert "pass `--box-format` with what the numbers are, one of xywh, xyxy" in refused.value.hint
    convert_to(tmp_path / "b", source, image=parse_image("", 160, box_format="xywh"))

    assert labels_of(tmp_path / "b") == {"boxes": [[20, 20, 30, 30]]}


def test_box_format_without_effect_is_refused() -> None:
    with pytest.raises(UsageError, match="--box-format needs --image or --max-side"):
        parse_image("", box_format="xywh")
    with pytest.raises(UsageError, match="--box-format changes nothing"):
        parse_image("", 9, labels="keep", box_format="xywh")


def test_masks_in_a_media_dataset_follow_their_pictures(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", {"caption": "a"}, seg_png=a_mask())

    convert_to(tmp_path / "b", source, image=parse_image("", 160), layout="polylithic", media=("jpg", "*.png"))

    assert Image.open(io.BytesIO(content(tmp_path / "b" / "media")["0.seg.png"])).size == (160, 120)


def test_pictures_and_arrays_of_other_sizes_stay(tmp_path: Path) -> None:
    others = {
        "latent_npy": an_array((4, 30, 40)),
        "points_npy": an_array((50, 3)),  # of a laser scanner
        "npz": an_array((1, 768), "embedding"),
        "thumb_png": a_picture(32, 24, form="PNG"),
        "edited_png": a_picture(form="PNG"),  # another picture
        "edited_jpg": a_picture(),
        "depth_webp": b"RIFF damaged",
        "cut_npz": an_array((5, 4), "boxes")[:-30],
    }
    source = a_source(tmp_path / "a", {"caption": "a"}, "", **others)

    convert_to(tmp_path / "b", source, image=parse_image("", 160))

    found = content(tmp_path / "b")
    assert {name: found[f"0.{name.replace('_', '.')}"] for name in others} == others
