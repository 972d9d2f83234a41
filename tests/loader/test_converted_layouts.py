"""Datasets that `convert` writes train like their source."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.build import a_dataset
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import (
    Cooker,
    DefaultTaskEncoder,
    VQASample,
    basic_sample_keys,
    cooker,
    get_loader,
    get_train_dataset,
)

Step = tuple[list[str], bytes, list[str]]


def steps(path: Path, count: int, cook: Any = None, text: str = "caption") -> list[Step]:
    """Returns keys, pixels and texts of the first batches."""

    class Encoder(DefaultTaskEncoder):
        cookers = (Cooker(cook),) if cook else ()

    loader = get_loader(get_train_dataset(str(path), batch_size=4, task_encoder=Encoder()))
    result = []
    for batch, _ in zip(loader, range(count), strict=False):
        result.append((list(batch.__key__), batch.image.numpy().tobytes(), list(getattr(batch, text))))
    return result


def load_cook(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("cook_of_a_test", path / "cook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.cook


def convert_to(dest: Path, source: Path, **options: Any) -> Path:
    convert([str(source)], str(dest), ConvertRequest(**options))
    return dest


@pytest.mark.parametrize("primary", ["tar", "jsonl"])
def test_polylithic_conversion_trains_like_monolithic_dataset(tmp_path: Path, primary: Any) -> None:
    shard: dict[str, bytes] = {}
    for i in range(12):
        shard |= {f"{i:03d}.png": _picture(i), f"{i:03d}.json": json.dumps({"caption": f"number {i}"}).encode()}
    source = tmp_path / "a"
    a_dataset(source, {"0.tar": shard})
    prepare(str(source), None, PrepareRequest(split={"train": 1}))

    poly = convert_to(tmp_path / "poly", source, layout="polylithic", media=("png",), primary=primary, shard_samples=5)
    back = convert_to(tmp_path / "back", poly)

    whole = steps(source, 7)
    assert steps(poly / "blend.yaml", 7, load_cook(poly)) == whole
    assert steps(back, 7) == whole
    assert len({pixels for _, pixels, _ in whole}) == 7


def test_blend_with_store_converts_to_monolithic_and_back(tmp_path: Path) -> None:
    media = tmp_path / "media"
    a_dataset(media, {"0.tar": {f"p/{i}.png": _picture(i) for i in range(12)}})
    prepare(str(media), None, PrepareRequest(split={"train": 1}))
    lines = [{"id": f"q{i}", "image": f"p/{11 - i}.png", "question": f"{i}?", "answer": f"{i}!"} for i in range(12)]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    prepare(str(tmp_path / "questions.jsonl"), None, PrepareRequest(index=IndexRequest(key="id")))
    blend = tmp_path / "train.yaml"
    blend.write_text("splits:\n  train:\n    path: questions.jsonl\n    aux:\n      images: media\n")

    mono = convert_to(tmp_path / "mono", blend, format_options={"media": "image"})
    fields = {"image": "png", "context": "json[question]", "answers": "json[answer]"}
    prepare(str(mono), None, PrepareRequest(sample_type="VQASample", field_map=fields))
    poly = convert_to(tmp_path / "poly", mono, layout="polylithic", media=("png",))

    @cooker
    def cook(sample: Any, images: Any) -> VQASample:
        line = sample["json"]
        image = images.get(line["image"], sample)
        return VQASample(**basic_sample_keys(sample), image=image, context=line["question"], answers=line["answer"])

    expected = steps(blend, 5, cook, "answers")
    assert steps(mono, 5, text="answers") == expected
    assert steps(poly / "blend.yaml", 5, load_cook(poly), "answers") == expected


def _picture(i: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (i * 20, 3, 5)).save(file, "PNG")
    return file.getvalue()
