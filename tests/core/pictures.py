"""A small dataset with everything that views can refer to, and its expected rows, computed without a catalog."""

from __future__ import annotations

import io
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.build import a_dataset, split_by_ratios
from tests.core.dumps import split_of
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest

ODD = ("it's", 'a "b" c', "x; DROP TABLE sample", "a b", "größe", "%_", "--", "$(reboot)")

Row = dict[str, Any]


@cache
def picture(width: int, height: int) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "JPEG")
    return file.getvalue()


def shards(count: int = 3, each: int = 8) -> dict[str, dict[str, bytes]]:
    """Each sample has a jpg and a txt, every third also a second jpg. The first shard has unusual keys."""
    result: dict[str, dict[str, bytes]] = {}
    for shard in range(count):
        members: dict[str, bytes] = {}
        for i in range(each):
            number = shard * each + i
            key = ODD[i] if shard == 0 else f"{number:04d}"
            members[f"{key}.jpg"] = picture(16 + number * 8 % 96, 24)
            if number % 3 == 0:
                members[f"{key}.seg.jpg"] = picture(8, 200)
            members[f"{key}.txt"] = b"x" * (number * 7 % 30)
        result[f"s-{shard:03d}.tar"] = members
    return result


def a_gallery(root: Path, count: int = 3, each: int = 8) -> str:
    """Makes the dataset, indexed with media facts and the column `bytes`, and split by sample."""
    path = a_dataset(root, shards(count, each))
    index(path, media=MediaRequest(selection="auto"), columns={"bytes": "size:jpg"})
    split_by_ratios(path, {"train": 3, "val": 1}, by="sample")
    return path


def rows_of(root: str) -> list[Row]:
    """The rows that `view create --where` filters, one per part, read from the tars and the table of splits."""
    from PIL import Image

    splits = split_of(root)
    rows: list[Row] = []
    for path in sorted(Path(root).glob("*.tar")):
        places: dict[str, int] = {}
        shard_rows: list[Row] = []
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, part = member.name.partition(".")
                data = tar.extractfile(member)
                assert data is not None
                place = places.setdefault(key, len(places))
                is_image = part.endswith("jpg")
                size = Image.open(data).size if is_image else (None, None)
                shard_rows.append(
                    {
                        "key": key,
                        "shard": path.name,
                        "position": place,
                        "part": part,
                        "ext": part,
                        "size": member.size,
                        "offset": member.offset_data,
                        "width": size[0],
                        "height": size[1],
                        "kind": "image" if is_image else None,
                        "split": splits.get((path.name, place)),
                    }
                )
        for row in shard_rows:
            row["bytes"] = next(r["size"] for r in shard_rows if (r["key"], r["part"]) == (row["key"], "jpg"))
        rows += shard_rows
    return rows
