"""Writes small datasets with the libraries that own their forms, for tests of importers that need none of them.

Run it in the environment of the systems we are measured against, `benchmarks/.venv-peers/bin/python -m
benchmarks.make_fixtures mds litdata`, and in one with `datasets` and `pillow`: `... huggingface`. What it writes is in
git, in tests/golden/forms, so that the tests run without it.
"""

from __future__ import annotations

import importlib.machinery
import io
import json
import shutil
import sys
import types
from pathlib import Path
from typing import Any

FORMS = Path(__file__).parent.parent / "tests" / "golden" / "forms"
SAMPLES = 5


def main(forms: list[str]) -> None:
    """Write the fixtures of these formats again."""
    without_torchvision()
    import numpy as np

    images = [_image(i) for i in range(SAMPLES)]
    if "mds" in forms:
        _mds(FORMS / "mds", None, images, np)
        _mds(FORMS / "mds-zstd", "zstd:3", images, np)
        _origin("mds", "mosaicml-streaming", "numpy", "pillow")
    if "litdata" in forms:
        _litdata(FORMS / "litdata", None, images, np)
        _litdata(FORMS / "litdata-zstd", "zstd", images, np)
        _origin("litdata", "litdata", "numpy", "pillow")
    if "huggingface" in forms:
        _huggingface(FORMS / "huggingface", images)
        _origin("huggingface", "datasets", "pyarrow", "pillow")


def _image(number: int) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (8, 6), (40 * number, 255 - 40 * number, 90)).save(file, "JPEG")
    return file.getvalue()


def _mds(folder: Path, compression: str | None, images: list[bytes], np: Any) -> None:
    from streaming.base.format.mds.writer import MDSWriter

    columns = {"image": "jpeg", "caption": "str", "label": "int", "score": "float32", "meta": "json", "row": "ndarray"}
    columns |= {"raw": "bytes", "grid": "ndarray:uint8:2,3", "pixels": "pil"}
    from PIL import Image

    shutil.rmtree(folder, ignore_errors=True)
    with MDSWriter(out=str(folder), columns=columns, compression=compression, size_limit=3000) as writer:
        for i, image in enumerate(images):
            writer.write(
                {
                    "image": image,
                    "caption": f"caption {i} é",
                    "label": i,
                    "score": np.float32(i / 2),
                    "meta": {"tags": [i, "x"]},
                    "row": np.arange(i + 1, dtype=np.int16),
                    "raw": bytes([i, 0, 255]),
                    "grid": np.full((2, 3), i, np.uint8),
                    "pixels": Image.new("RGB", (2, 2), (i, 2, 3)),
                }
            )


def _litdata(folder: Path, compression: str | None, images: list[bytes], np: Any) -> None:
    from litdata.streaming.writer import BinaryWriter
    from litdata.types import Jpeg

    shutil.rmtree(folder, ignore_errors=True)
    writer = BinaryWriter(str(folder), chunk_size=2, compression=compression)
    for i, image in enumerate(images):
        writer[i] = {
            "image": Jpeg(bytes=image),
            "caption": f"caption {i} é",
            "label": i,
            "score": i / 2,
            "is_good": i % 2 == 0,
            "row": np.arange(3, dtype=np.int16),
            "grid": np.full((2, 3), i, np.float32),
            "raw": bytes([i, 0, 255]),
            "box": [i, i + 1],
        }
    writer.done()
    writer.merge()


def _huggingface(folder: Path, images: list[bytes]) -> None:
    import datasets

    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    kinds |= {"text": datasets.Value("string"), "tags": datasets.Sequence(datasets.Value("string"))}
    rows = {
        "image": [{"bytes": image, "path": f"{i}.jpg"} for i, image in enumerate(images)],
        "label": [i % 2 for i in range(SAMPLES)],
        "text": [f"text {i} é" for i in range(SAMPLES)],
        "tags": [["a", str(i)] for i in range(SAMPLES)],
    }
    shutil.rmtree(folder, ignore_errors=True)
    whole = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    splits = {"train": whole.select(range(3)), "test": whole.select(range(3, SAMPLES))}
    datasets.DatasetDict(splits).save_to_disk(str(folder), num_shards={"train": 2, "test": 1})


def _origin(form: str, *libraries: str) -> None:
    """Note with what a form was written."""
    from importlib.metadata import version

    file = FORMS / "origin.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    known |= {"made by": "benchmarks/make_fixtures.py", "images": "plain colours, drawn by the script"}
    known[form] = {name: version(name) for name in libraries}
    file.write_text(f"{json.dumps(known, indent=1)}\n")


def without_torchvision() -> None:
    """The libraries import torchvision for datasets that are not used here, and builds of it may not fit torch."""
    names = ("", ".datasets", ".transforms", ".transforms.functional", ".io")
    for name in (f"torchvision{suffix}" for suffix in names):
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        sys.modules[name] = module
    sys.modules["torchvision.datasets"].VisionDataset = object  # type: ignore[attr-defined]
    sys.modules["torchvision.transforms.functional"].to_tensor = None  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(sys.argv[1:])
