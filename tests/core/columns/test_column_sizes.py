from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset
from wdsctl.core.columns.compute import part_sizes
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets

ALIKE = {f"{i}.{part}": bytes(i * size) for i in range(5) for part, size in (("jpg", 10), ("txt", 1))}
MIXED = {"0.jpg": bytes(3), "0.txt": bytes(4), "1.txt": bytes(5), "2.jpg": bytes(6)}


@pytest.mark.parametrize(
    ("files", "part", "sizes"),
    [
        (ALIKE, "jpg", [0, 10, 20, 30, 40]),
        (ALIKE, "txt", [0, 1, 2, 3, 4]),
        (ALIKE, "png", [0] * 5),
        (MIXED, "jpg", [3, 0, 6]),
        (MIXED, "txt", [4, 5, 0]),
        ([("0.jpg", bytes(3)), ("0.jpg", bytes(4))], "jpg", [4]),
    ],
)
def test_part_sizes_is_zero_for_samples_without_part(
    tmp_path: Path, files: dict[str, bytes], part: str, sizes: list[int]
) -> None:
    root = a_dataset(tmp_path, {"a.tar": files, "b.tar": files})
    index(root)
    offsets = Offsets(locate(root).offsets_path(1))
    assert part_sizes(offsets, slice(0, offsets.samples), part).tolist() == [*sizes, *sizes]
    assert part_sizes(offsets, slice(len(sizes), 2 * len(sizes)), part).tolist() == sizes
