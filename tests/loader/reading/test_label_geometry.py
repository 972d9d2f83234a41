"""Images and what is drawn on them are delivered in one geometry."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.build import a_dataset
from wdsctl import Dataset
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import SampleDecoder
from wdsctl.loader.reading import label_geometry
from wdsctl.loader.runtime.failures import FatalSampleError

DETECTION = {"image": "jpg", "boxes": "json[boxes]", "box_format": "json[box_format]"}
LABELS = {"boxes": [[20, 10, 8, 4]], "box_format": "xywh"}


def a_picture(orientation: int = 0) -> bytes:
    """64 x 32 pixels: black, with a white box from (20, 10) to (28, 14) of the picture as it is shown or stored."""
    exif = Image.Exif()
    if orientation:
        exif[0x112] = orientation
    file = io.BytesIO()
    Image.new("L", (64, 32)).save(file, "JPEG", exif=exif)
    return file.getvalue()


def a_mask(width: int, height: int) -> bytes:
    ids = np.arange(width * height, dtype=np.uint16).reshape(height, width)
    file = io.BytesIO()
    Image.fromarray(ids).save(file, "PNG")
    return file.getvalue()


def a_labelled(
    root: Path, drawn_on: str, orientation: int = 0, labels: Any = LABELS, mask: bytes = b"", **more: str
) -> str:
    parts = {"jpg": a_picture(orientation), "json": json.dumps(labels).encode()} | ({"seg.png": mask} if mask else {})
    source = a_dataset(root, {"0.tar": {f"0.{name}": data for name, data in parts.items()}})
    kind, fields = (
        ("SegmentationSample", {"image": "jpg", "mask": "seg.png"}) if mask else ("DetectionSample", DETECTION)
    )
    prepare(source, None, PrepareRequest(sample_type=kind, field_map={**fields, **more}))
    path = Path(locate(source).config_path)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("drawn_on")]
    path.write_text("\n".join([*lines, f"drawn_on: {drawn_on}" if drawn_on else "", ""]))
    return source


@pytest.mark.parametrize(
    ("drawn_on", "orientation", "shape"),
    [
        ("shown", 6, (64, 32)),
        ("shown", 1, (32, 64)),
        ("stored", 6, (32, 64)),
        ("", 6, (32, 64)),
        ("shown", 9, (32, 64)),
    ],
)
def test_images_are_turned_if_their_labels_are_drawn_so(
    tmp_path: Path, drawn_on: str, orientation: int, shape: tuple[int, int]
) -> None:
    (sample,) = Dataset(a_labelled(tmp_path / "a", drawn_on, orientation))

    assert (sample.image.shape[-2:], sample.boxes.tolist()) == (shape, LABELS["boxes"])


@pytest.mark.parametrize(("drawn_on", "option"), [("shown", False), ("stored", True)])
def test_option_that_contradicts_labels_is_refused(tmp_path: Path, drawn_on: str, *, option: bool) -> None:
    source = a_labelled(tmp_path / "a", drawn_on, 6)

    with pytest.raises(UsageError, match=rf"exif_orientation={option}.*as {drawn_on}"):
        next(iter(Dataset(source, decode=SampleDecoder(exif_orientation=option))))


def test_dataset_without_drawn_on_keeps_its_pixels_and_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = a_labelled(tmp_path / "a", "", 6)
    label_geometry._warn_of_unknown_geometry.cache_clear()

    with caplog.at_level(logging.WARNING):
        small = Dataset(source, decode=SampleDecoder(min_side=8))[0]
        shown = Dataset(source, decode=SampleDecoder(exif_orientation=True))[0]

    assert (small.image.shape[-2:], shown.image.shape[-2:]) == ((8, 16), (64, 32))
    assert small.boxes.tolist() == shown.boxes.tolist() == LABELS["boxes"]
    assert sum("`drawn_on: shown`" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize(("orientation", "shape"), [(1, (8, 16)), (6, (16, 8))])
def test_boxes_shrink_with_their_image(tmp_path: Path, orientation: int, shape: tuple[int, int]) -> None:
    more = {"keypoints": "json[keypoints]", "masks": "json[masks]", "areas": "json[areas]"}
    labels = {**LABELS, "keypoints": [[4, 8, 2]], "masks": [[[4, 4, 8, 4, 8, 8]]], "areas": [32]}
    source = a_labelled(tmp_path / "a", "shown", orientation, labels, b"", **more)

    sample = Dataset(source, decode=SampleDecoder(min_side=8))[0]

    assert sample.image.shape[-2:] == shape
    assert sample.boxes.tolist() == [[5, 2.5, 2, 1]]
    assert (sample.keypoints, sample.masks, sample.areas) == ([[1, 2, 2]], [[[1, 1, 2, 1, 2, 2]]], [2])


def test_shares_stay_with_a_smaller_image(tmp_path: Path) -> None:
    labels = {"boxes": [[0.5, 0.5, 0.25, 0.25]], "box_format": "normalized_cxcywh"}
    source = a_labelled(tmp_path / "a", "shown", 1, labels)

    assert Dataset(source, decode=SampleDecoder(min_side=8))[0].boxes.tolist() == labels["boxes"]


def test_mask_shrinks_with_its_image_and_keeps_ids(tmp_path: Path) -> None:
    source = a_labelled(tmp_path / "a", "shown", 6, mask=a_mask(32, 64))

    whole, small = Dataset(source)[0], Dataset(source, decode=SampleDecoder(min_side=16))[0]

    assert (whole.mask.shape, small.image.shape[-2:], small.mask.shape) == ((64, 32), (32, 16), (32, 16))
    assert small.mask.equal(whole.mask[1::2, 1::2])


def test_mask_of_another_size_than_its_image_is_named(tmp_path: Path) -> None:
    source = a_labelled(tmp_path / "a", "stored", mask=a_mask(65, 32))

    with pytest.raises(SampleFailed, match="the mask has 65 x 32 pixels, but its picture 64 x 32"):
        Dataset(source, decode=SampleDecoder(min_side=16))[0]


def test_min_side_is_refused_where_labels_cannot_follow(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"0.jpg": a_picture(), "0.json": b'{"t": "a", "w": [[1, 2, 3, 4]]}'}})
    fields = {"image": "jpg", "text": "json[t]", "words_boxes": "json[w]"}
    prepare(source, None, PrepareRequest(sample_type="OCRSample", field_map=fields))

    with pytest.raises(UsageError, match="words_boxes of OCRSample"):
        Dataset(source, decode=SampleDecoder(min_side=8))[0]


@pytest.mark.parametrize("mode", ["pil", "pilrgb", "rgb8"])
def test_boxes_shrink_with_images_of_every_kind(tmp_path: Path, mode: str) -> None:
    sample = Dataset(a_labelled(tmp_path / "a", "shown", 6), decode=SampleDecoder(mode, min_side=8))[0]

    assert (np.asarray(sample.image).shape[:2], sample.boxes.tolist()) == ((16, 8), [[5, 2.5, 2, 1]])


@pytest.mark.parametrize("options", [{"skip": ("image",)}, {"skip": ("jpg",)}, {"decoders": {"jpg": len}}])
def test_labels_of_an_image_that_is_not_reduced_stay(tmp_path: Path, options: Any) -> None:
    sample = Dataset(a_labelled(tmp_path / "a", "shown"), decode=SampleDecoder(min_side=8, **options))[0]

    assert (type(sample.image) in (bytes, int), sample.boxes.tolist()) == (True, LABELS["boxes"])


@pytest.mark.parametrize("skip", ["mask", "seg.png"])
def test_mask_that_stays_bytes_refuses_min_side(tmp_path: Path, skip: str) -> None:
    source = a_labelled(tmp_path / "a", "shown", mask=a_mask(64, 32))

    with pytest.raises(UsageError, match=r"labels cannot follow: the mask stays bytes \(skip="):
        Dataset(source, decode=SampleDecoder(min_side=8, skip=(skip,)))[0]


def test_mask_by_an_own_decoder_shrinks_if_it_is_an_array(tmp_path: Path) -> None:
    def read(data: bytes) -> Any:
        return np.asarray(Image.open(io.BytesIO(data))).astype(np.int32)

    source = a_labelled(tmp_path / "a", "shown", mask=a_mask(64, 32))

    assert Dataset(source, decode=SampleDecoder(min_side=8, decoders={"seg.png": read}))[0].mask.shape == (8, 16)
    with pytest.raises(FatalSampleError, match="the mask cannot follow: its decoder returned a int"):
        Dataset(source, decode=SampleDecoder(min_side=8, decoders={"seg.png": len}))[0]


def test_fingerprint_of_a_decoder_is_what_it_was() -> None:
    assert SampleDecoder().config() == SampleDecoder(exif_orientation=False).config()
    assert SampleDecoder().config()["exif_orientation"] is False


@pytest.mark.parametrize(("drawn_on", "shape"), [("stored", (32, 64)), ("shown", (64, 32)), ("", (64, 32))])
def test_tiff_is_delivered_as_its_labels_are_drawn(tmp_path: Path, drawn_on: str, shape: tuple[int, int]) -> None:
    exif = Image.Exif()
    exif[0x112] = 6
    file = io.BytesIO()
    Image.new("L", (64, 32)).save(file, "TIFF", exif=exif)
    parts = {"0.tif": file.getvalue(), "0.json": json.dumps(LABELS).encode()}
    source = a_dataset(tmp_path / "a", {"0.tar": parts})
    prepare(source, None, PrepareRequest(sample_type="DetectionSample", field_map={**DETECTION, "image": "tif"}))
    path = Path(locate(source).config_path)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("drawn_on")]
    path.write_text("\n".join([*lines, f"drawn_on: {drawn_on}" if drawn_on else "", ""]))

    (sample,) = Dataset(source)

    assert sample.image.shape[-2:] == shape
