"""Samples of natural statistics: crops, flips and colour jitter of a dozen photographs that ship inside wheels.

A sample is `000012345.jpg` (256x256, 15 to 16 KB in the mean), `.json` (facts) and `.txt` (a caption).
"""

from __future__ import annotations

import io
import json
import random
import tarfile
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

SIDE_PIXELS = 256
SAMPLES_A_SHARD = 1000
#: Chosen so that the mean file is 15 to 16 KB.
_JPEG_QUALITY = 85
_PROCESSES = 2
_SHORTEST_CROP, _LONGEST_CROP = 0.35, 0.9
_PHOTOGRAPHS = {
    "skimage/data": (
        "astronaut.png chelsea.png coffee.png motorcycle_left.png motorcycle_right.png rocket.jpg "
        "hubble_deep_field.jpg ihc.png retina.jpg"
    ),
    "sklearn/datasets/images": "china.jpg flower.jpg",
    "matplotlib/mpl-data/sample_data": "grace_hopper.jpg",
}
_WORDS = (
    "bright",
    "dark",
    "small",
    "wide",
    "detail",
    "view",
    "near",
    "under",
    "sky",
    "cat",
    "cup",
    "flower",
    "roof",
    "star",
)


def write_photos(folder: Path, samples: int) -> None:
    """Three files a sample, all in one folder."""
    runs = [(folder, first, min(SAMPLES_A_SHARD, samples - first)) for first in range(0, samples, SAMPLES_A_SHARD)]
    with get_context("spawn").Pool(_PROCESSES) as pool:
        pool.starmap(_write_run, runs)


def shard_photos(raw: Path, folder: Path, *, samples: int, mtime: int) -> None:
    """The files of `raw` in plain ustar shards of 1000 samples."""
    for shard, first in enumerate(range(0, samples, SAMPLES_A_SHARD)):
        write_photo_shard(raw, folder / f"shard-{shard:06d}.tar", first, min(SAMPLES_A_SHARD, samples - first), mtime)


def write_photo_shard(raw: Path, path: Path, first: int, samples: int, mtime: int) -> None:
    """One shard with the samples first, first + 1, ... of the files of `raw`."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(first, first + samples):
            for extension in ("jpg", "json", "txt"):
                payload = (raw / f"{number:09d}.{extension}").read_bytes()
                member = tarfile.TarInfo(f"{number:09d}.{extension}")
                member.size, member.mtime, member.mode = len(payload), mtime, 0o444
                tar.addfile(member, io.BytesIO(payload))


def _write_run(folder: Path, first: int, count: int) -> None:
    for number in range(first, first + count):
        # Keyed by the sample's number, so that no sample depends on which process made its neighbours.
        draw = random.Random(f"photo {number}")
        image, source = _view(draw)
        stem = folder / f"{number:09d}"
        image.save(stem.with_suffix(".jpg"), quality=_JPEG_QUALITY)
        caption = " ".join(draw.choices(_WORDS, k=draw.randint(6, 16)))
        stem.with_suffix(".txt").write_text(caption)
        facts = {
            "number": number,
            "source": source,
            "width": SIDE_PIXELS,
            "height": SIDE_PIXELS,
            "characters": len(caption),
        }
        stem.with_suffix(".json").write_text(json.dumps(facts))


def _view(draw: random.Random) -> tuple[Image.Image, str]:
    """A random square of a random photograph, mirrored half the time, its colours shifted a little."""
    from PIL import Image, ImageEnhance

    name, photograph = draw.choice(_photographs())
    side = int(min(photograph.size) * draw.uniform(_SHORTEST_CROP, _LONGEST_CROP))
    left, top = draw.randint(0, photograph.width - side), draw.randint(0, photograph.height - side)
    box = (left, top, left + side, top + side)
    image = photograph.resize((SIDE_PIXELS, SIDE_PIXELS), Image.Resampling.BICUBIC, box=box)
    if draw.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = change(image).enhance(draw.uniform(0.8, 1.2))
    return image, name


@cache
def _photographs() -> list[tuple[str, Image.Image]]:
    from PIL import Image

    found = []
    for folder, names in _PHOTOGRAPHS.items():
        package, _, rest = folder.partition("/")
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"{package} is not installed: its wheel holds the photographs")
        for name in names.split():
            image = Image.open(Path(spec.origin).parent / rest / name).convert("RGB")
            found.append((name, image))
    return found
