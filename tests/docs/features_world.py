"""The folder that the commands of docs/features.md run in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.build import a_dataset
from tests.core.media_files import a_wav
from tests.docs.pages import ROOT
from wdsctl.core.index.index import index

FORMS = ROOT / "tests" / "golden" / "forms"


def build(folder: Path, source: Path) -> None:
    """`source`: a folder with `raw` and `shards`, as created by tests/docs/conftest.py."""
    shutil.copytree(source / "shards", folder / "shards")
    images = sorted((source / "raw").rglob("*.jpg"))[:12]
    for image in images:
        for part in (image, image.with_suffix(".txt"), image.with_suffix(".json")):
            copy = folder / "raw" / part.relative_to(source / "raw")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(part, copy)
    names = [image.relative_to(source / "raw").as_posix() for image in images]
    _write(folder / "questions.jsonl", "".join(_line(id=f"q{i}", image=name) for i, name in enumerate(names)))
    _write(folder / "keys.txt", "".join(f"{name.removesuffix('.jpg')}\n" for name in names[:4]))
    _write(folder / "list.txt", "".join(f"shards/shard-00000{i}.tar\n" for i in range(6)))
    _write(folder / "blend.yaml", "splits:\n  train:\n    path: shards\n  val:\n    path: shards\n")
    tar = (folder / "shards" / "shard-000000.tar").read_bytes()
    a_dataset(folder / "broken", {"a.tar": tar, "b.tar": tar[:20_000]})
    a_dataset(folder / "sounds", {"a.tar": {f"{i}.wav": a_wav() for i in range(3)}})
    shardlist = [{"url": f"shard-00000{i}.tar", "nsamples": 20} for i in range(6)]
    _write(folder / "shards" / "index.json", json.dumps({"__kind__": "wids-shard-index-v1", "shardlist": shardlist}))
    for root, key in (("broken", None), ("sounds", None), ("questions.jsonl", "id")):
        index(str(folder / root), key=key)
    _forms(folder / "forms", images, names)


def _forms(folder: Path, images: list[Path], names: list[str]) -> None:
    for name in ("huggingface", "mds", "litdata"):
        shutil.copytree(FORMS / name, folder / name)
    for image, name in zip(images, names, strict=True):
        for copy in (folder / "classes" / name, folder / "images" / name):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(image, copy)
    _write(folder / "rows.csv", "image,text\n" + "".join(f"images/{name},a cat\n" for name in names))
    _write(folder / "rows.jsonl", "".join(_line(image=f"images/{name}", text="a cat") for name in names))
    talk = [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A cat."}]
    llava = [{"id": str(i), "image": f"images/{name}", "conversations": talk} for i, name in enumerate(names)]
    _write(folder / "llava.json", json.dumps(llava))
    coco = {
        "images": [{"id": i, "file_name": name, "width": 32, "height": 32} for i, name in enumerate(names)],
        "annotations": [{"id": 1, "image_id": 0, "category_id": 7, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 7, "name": "cat"}],
    }
    _write(folder / "instances.json", json.dumps(coco))


def _line(**fields: str) -> str:
    return json.dumps(fields) + "\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
