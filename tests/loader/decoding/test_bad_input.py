"""Damaged, unusual and hostile images in a training: errors name dataset, shard, key, part and cause."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms

from tests.loader.datasets import a_dataset
from wdsctl.core.errors import SampleFailed, WdsctlError
from wdsctl.loader import (
    DefaultTaskEncoder,
    FatalSampleError,
    SampleDecoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
)

from .pictures import a_deep_png, a_jpeg, a_png, a_png_that_promises, as_pillow_reads, encoded, pixels

WHOLE = a_jpeg(64, 64)


def animated(form: str) -> bytes:
    first, *others = (Image.fromarray(pixels(seed=i)) for i in range(3))
    return encoded(first, form, save_all=True, append_images=others)


def cmyk(**options: Any) -> bytes:
    return encoded(Image.fromarray(pixels(33, 31, 4), "CMYK"), "JPEG", **options)


def ycck() -> bytes:
    """CMYK data marked as YCCK (transform 2 in Adobe's segment), as Photoshop writes it."""
    adobe = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\x02"
    data = cmyk()
    at = data.find(b"\xff\xee\0\x0eAdobe")
    return data[:at] + adobe + data[at + 16 :] if at >= 0 else data[:2] + adobe + data[2:]


def a_palette(**options: Any) -> bytes:
    return encoded(Image.fromarray(pixels()).convert("P"), "PNG", **options)


def with_profile() -> bytes:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return a_jpeg(icc_profile=profile)


UNUSUAL: dict[str, Callable[[], bytes]] = {
    "cmyk": cmyk,
    "cmyk progressive": lambda: cmyk(progressive=True),
    "ycck": ycck,
    "palette": a_palette,
    "palette with transparency": lambda: a_palette(transparency=bytes(range(256))),
    "palette with one transparent color": lambda: a_palette(transparency=3),
    "gray with alpha": lambda: encoded(Image.fromarray(pixels(20, 30, 2), "LA"), "PNG"),
    "one bit": lambda: encoded(Image.fromarray(pixels()).convert("1"), "PNG"),
    "1 x 1 jpeg": lambda: a_jpeg(1, 1),
    "1 x 1 png": lambda: a_png(1, 1),
    "progressive": lambda: a_jpeg(progressive=True),
    "odd 4:2:0": lambda: a_jpeg(33, 31, subsampling="4:2:0"),
    "profile": with_profile,
    "gif, animated": lambda: animated("GIF"),
    "png, animated": lambda: animated("PNG"),
    "webp, animated": lambda: animated("WEBP"),
    "tiff of several pages": lambda: animated("TIFF"),
    "broken exif": lambda: a_jpeg(exif=b"Exif\0\0MM\0*\xff\xff\xff\xff"),
}


@pytest.mark.filterwarnings("ignore")  # Pillow warns of transparency that it drops and of broken EXIF
@pytest.mark.parametrize("name", UNUSUAL)
@pytest.mark.parametrize("mode", ["rgb8", "l8", "rgba8"])
def test_unusual_images_decode_like_first_frame_in_pillow(name: str, mode: str) -> None:
    data = UNUSUAL[name]()

    assert np.array_equal(SampleDecoder(mode)("jpg", data), as_pillow_reads(data, mode[:-1].upper()))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("transparency", [3, bytes(range(256))])
@pytest.mark.parametrize("spec", ["rgb8", "pilrgb", "pill"])
def test_unrequested_transparency_is_dropped_without_warning(spec: str, transparency: Any) -> None:
    SampleDecoder(spec)("png", a_palette(transparency=transparency))


@pytest.mark.parametrize("decoder", [SampleDecoder(), SampleDecoder("pil"), SampleDecoder("rgb16", guess_content=True)])
@pytest.mark.parametrize("size", [(30_000, 30_000), (2**31 - 1, 2**31 - 1)])
def test_image_with_huge_claimed_size_is_refused(decoder: SampleDecoder, size: tuple[int, int]) -> None:
    for data in (a_png_that_promises(*size), _jpeg_with_claimed_size(*size)):
        with pytest.raises(SampleFailed, match=r"pixels|could be decompression bomb"):
            decoder("png", data)


def _jpeg_with_claimed_size(width: int, height: int) -> bytes:
    data = a_jpeg(16, 16)
    at = data.index(b"\xff\xc0") + 5
    sides = b"".join(min(side, 65_500).to_bytes(2, "big") for side in (height, width))
    return data[:at] + sides + data[at + 4 :]


BAD: dict[str, tuple[str, bytes, str]] = {
    "truncated jpeg": ("jpg", WHOLE[:-200], "truncated"),
    "jpeg cut in its header": ("jpg", WHOLE[:100], ""),
    "truncated png": ("png", a_png(64, 64)[:-500], "truncated|broken"),
    "truncated deep png": (
        "png",
        a_deep_png(np.arange(8100, dtype=np.uint16).reshape(30, 90, 3) ** 3)[:999],
        "truncated|broken",
    ),
    "zero bytes": ("jpg", b"", "the part is empty"),
    "a text": ("jpg", b"this is no image", "not an image of a supported format"),
    "a bomb": ("png", a_png_that_promises(30_000, 30_000), "pixels"),
    "32 bits": ("tif", encoded(np.ones((4, 4), np.float32), "TIFF"), "32 bits per pixel"),
}


def make_parts(i: int, bad: bytes) -> dict[str, bytes]:
    return {"jpg": bad if i == 5 else WHOLE, "txt": f"text {i}".encode()}


class TorchDecoding(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder("torchrgb8")


def expect_sample_failed(error: Exception, sample: Any, sources: Any) -> None:
    assert isinstance(error, SampleFailed)


def error_collector(errors: list[Any]) -> Callable[[Exception, Any, Any], None]:
    def collect(error: Exception, sample: Any, sources: Any) -> None:
        errors.append(error)

    return collect


@pytest.mark.parametrize("name", BAD)
def test_failed_sample_reports_source_and_is_skipped(tmp_path: Path, name: str) -> None:
    _, data, cause = BAD[name]
    errors: list[WdsctlError] = []
    root = a_dataset(tmp_path, 8, parts=lambda i: make_parts(i, data), shard_samples=4, split={"val": 1.0})
    config = WorkerConfig(global_error_handler=error_collector(errors))
    loader = get_loader(get_val_dataset(root, batch_size=4, task_encoder=TorchDecoding(), worker_config=config))

    keys = [key for batch in loader for key in batch["__key__"]]

    assert keys == [f"{i:06}" for i in range(8) if i != 5]
    assert len(errors) == loader.stats.failed == 1
    error = errors[0]
    assert (error.code, error.where) == ("WDS503", f"dataset {root}, shard shard-001.tar, key 000005, part 'jpg'")
    assert error.message.startswith("cannot decode part 'jpg': ")
    assert not cause or any(each in error.message for each in cause.split("|"))


def test_images_decode_under_extension_of_other_image_format(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 4, parts=lambda i: {"jpg": (a_png(20, 30), WHOLE)[i % 2], "txt": b"a"})

    sample = next(iter(get_loader(get_train_dataset(root, task_encoder=TorchDecoding()))))

    assert sample["jpg"].dtype is torch.uint8


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_decode_threads_do_not_change_batches_or_failures(tmp_path: Path, threads: int) -> None:
    def batches(decode_threads: int) -> tuple[list[Any], list[str]]:
        class Threaded(DefaultTaskEncoder[Any, Any, Any, Any]):
            decoder = SampleDecoder("torchrgb8", decode_threads=decode_threads)

        errors: list[Any] = []
        config = WorkerConfig(global_error_handler=error_collector(errors))
        dataset = get_val_dataset(root, batch_size=8, task_encoder=Threaded(), worker_config=config)
        batches = list(get_loader(dataset))
        return batches, [str(error) for error in errors]

    def parts(i: int) -> dict[str, bytes]:
        return {"jpg": WHOLE[:-300] if i in (3, 20) else a_jpeg(64, 64 + 2 * (i // 24), seed=i)}

    root = a_dataset(tmp_path, 40, parts=parts, split={"val": 1.0})
    one, many = batches(1), batches(threads)

    assert one[1] == many[1]
    assert len(one[1]) == 2
    for left, right in zip(one[0], many[0], strict=True):
        assert left["__key__"] == right["__key__"]
        assert all(map(torch.equal, left["jpg"], right["jpg"]))


def shape_of(data: bytes) -> tuple[int, ...]:
    return Image.open(io.BytesIO(data)).size


def fail(data: bytes) -> Any:
    raise ValueError("no mask")


class CustomDecoders(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder("torchrgb8", decoders={"seg.png": shape_of}, skip=("jpg",))


class Failing(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder(decoders={"txt": fail})


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_custom_decoders_work_in_workers(tmp_path: Path, start_method: Any) -> None:
    root = a_dataset(tmp_path, 8, parts=lambda i: {"jpg": WHOLE, "seg.png": a_png(20, 30 + i)}, split={"val": 1.0})
    config = WorkerConfig(num_workers=1, start_method=start_method)
    batches = list(get_loader(get_val_dataset(root, batch_size=4, task_encoder=CustomDecoders(), worker_config=config)))

    assert [tuple(size) for batch in batches for size in batch["seg.png"]] == [(30 + i, 20) for i in range(8)]
    assert all(data == WHOLE for batch in batches for data in batch["jpg"])


@pytest.mark.parametrize("workers", [0, 1])
def test_custom_decoder_that_always_fails_ends_run_with_source(tmp_path: Path, workers: int) -> None:
    root = a_dataset(tmp_path, 8)
    config = WorkerConfig(num_workers=workers, global_error_handler=expect_sample_failed)
    loader = get_loader(get_train_dataset(root, batch_size=4, task_encoder=Failing(), worker_config=config))

    with pytest.raises(FatalSampleError, match="no mask") as raised:
        next(iter(loader))

    assert "part 'txt'" in raised.value.where
    assert f"dataset {root}, shard shard-000.tar, key " in raised.value.where


def test_skipped_field_stays_bytes(tmp_path: Path) -> None:
    class Skipping(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = SampleDecoder("torchrgb8", skip=("image",))

    fields = {"image": "jpg", "caption": "txt"}
    root = a_dataset(
        tmp_path, 4, parts=lambda i: make_parts(i, WHOLE), sample_type="CaptioningSample", field_map=fields
    )

    sample = next(iter(get_loader(get_train_dataset(root, task_encoder=Skipping()))))

    assert sample.image == WHOLE
    assert sample.caption.startswith("text ")
