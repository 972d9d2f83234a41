"""Reads MDS or LitData with the library that owns the form, to show that it takes what `wdsctl convert` writes.

`benchmarks/.venv-peers/bin/python -m benchmarks.check_forms FOLDER` prints every sample, an image as its
size and a digest of its pixels.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.make_fixtures import without_torchvision


def main(folder: str) -> None:
    """Print a line of JSON a sample."""
    index = json.loads((Path(folder) / "index.json").read_bytes())
    for sample in _mds(folder, index) if "shards" in index else _litdata(folder):
        print(json.dumps({name: _plain(value) for name, value in sample.items()}))


def _mds(folder: str, index: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    without_torchvision()
    from streaming.base.format import reader_from_json

    for shard in index["shards"]:
        reader = reader_from_json(folder, None, shard)
        yield from (reader[row] for row in range(reader.samples))


def _litdata(folder: str) -> Iterator[Mapping[str, Any]]:
    without_torchvision()
    _decode_with_pillow()
    from litdata import StreamingDataset

    dataset = StreamingDataset(folder, shuffle=False)
    assert [sample["__key__"] for sample in dataset] == [dataset[i]["__key__"] for i in range(len(dataset))]
    yield from (dataset[i] for i in range(len(dataset)))


def _decode_with_pillow() -> None:
    """LitData hands images to torchvision, whose builds often do not fit the torch at hand: Pillow decodes instead."""
    import io
    from types import SimpleNamespace

    import numpy as np
    import torch
    from PIL import Image

    def decode(data: Any, mode: str) -> Any:
        return torch.from_numpy(np.array(Image.open(io.BytesIO(data.numpy().tobytes())).convert(mode))).permute(2, 0, 1)

    decoders: Any = sys.modules["torchvision.io"]
    decoders.decode_image = decoders.decode_jpeg = decode
    decoders.ImageReadMode = SimpleNamespace(RGB="RGB")


def _plain(value: Any) -> Any:
    if hasattr(value, "numpy"):  # an image: its shape, and a digest of its pixels
        array = value.numpy()
        return [*array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if hasattr(value, "convert"):  # an image of Pillow
        return [*value.size, hashlib.sha256(value.tobytes()).hexdigest()]
    return value


if __name__ == "__main__":
    main(sys.argv[1])
