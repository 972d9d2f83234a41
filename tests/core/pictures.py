"""A small dataset with everything that views speak of, and what it holds, found out without a catalog."""

from __future__ import annotations

import io
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.build import a_dataset
from tests.core.dumps import split_of
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.split.split import split_by_ratios

ODD = ("it's", 'a "b" c', "x; DROP TABLE sample", "a b", "größe", "%_", "--", "$(reboot)")

Row = dict[str, Any]


@cache
def picture(width: int, height: int) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "JPEG")
    return file.getvalue()


def shards(count: int = 3, each: int = 8) -> dict[str, dict[str, bytes]]:
    """Of each sample a jpg, a txt and, of every third, a second jpg. Keys repeat over shards, and some are odd."""
    made: dict[str, dict[str, bytes]] = {}
    for shard in range(count):
        members: dict[str, bytes] = {}
        for i in range(each):
            number = shard * each + i
            key = ODD[i] if shard == 0 else f"{number:04d}"
            members[f"{key}.jpg"] = picture(16 + number * 8 % 96, 24)
            if number % 3 == 0:
                members[f"{key}.seg.jpg"] = picture(8, 200)
            members[f"{key}.txt"] = b"x" * (number * 7 % 30)
        made[f"s-{shard:03d}.tar"] = members
    return made


def a_gallery(root: Path, count: int = 3, each: int = 8) -> str:
    """The dataset: indexed with facts of media and the column `bytes`, split by sample."""
    path = a_dataset(root, shards(count, each))
    index(path, media=MediaRequest(selection="auto"), columns={"bytes": "size:jpg"})
    split_by_ratios(path, {"train": 3, "val": 1}, by="sample")
    return path


def rows_of(root: str) -> list[Row]:
    """What `view create --where` looks at, from the tars and the table of splits: a row a part."""
    from PIL import Image

    dealt = split_of(root)
    rows: list[Row] = []
    for path in sorted(Path(root).glob("*.tar")):
        places: dict[str, int] = {}
        mine: list[Row] = []
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, part = member.name.partition(".")
                data = tar.extractfile(member)
                assert data is not None
                place = places.setdefault(key, len(places))
                is_image = part.endswith("jpg")
                size = Image.open(data).size if is_image else (None, None)
                mine.append(
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
                        "split": dealt.get((path.name, place)),
                    }
                )
        for row in mine:
            row["bytes"] = next(r["size"] for r in mine if (r["key"], r["part"]) == (row["key"], "jpg"))
        rows += mine
    return rows
