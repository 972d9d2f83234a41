"""A polylithic folder is one dataset: samples have their media, without a cooker."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import wdsctl
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import SampleFailed, StateMismatch, UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import Cooker, DefaultTaskEncoder, VQASample, WorkerConfig, cooker, get_loader, get_train_dataset


def a_picture(side: int, red: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side), (red, 3, 5)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def source(tmp_path: Path) -> str:
    root = tmp_path / "a"
    root.mkdir()
    for i in range(4):
        (root / f"{i}.png").write_bytes(a_picture(8, 60 * i))
    rows = [
        {"id": f"{i}-{k}", "image": f"{i}.png", "question": f"what {k}?", "answer": f"this {i}"}
        for k in range(6)
        for i in range(4)
    ]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(root / "rows.jsonl")


def prepared(source: str, dest: Path, layout: Any) -> str:
    request = PrepareRequest(format_options={"key": "id"}, layout=layout, split={"train": 1}, take_unsure=True)
    prepare(source, str(dest), request)
    return str(dest)


@pytest.fixture
def poly(source: str, tmp_path: Path) -> str:
    return prepared(source, tmp_path / "poly", "polylithic")


def batches(path: str, count: int = 9, workers: int = 0, encoder: Any = None) -> list[Any]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    loader = get_loader(get_train_dataset(path, batch_size=4, worker_config=config, task_encoder=encoder))
    return [batch for batch, _ in zip(loader, range(count), strict=False)]


def plain(batch: Any) -> Any:
    return batch.__key__, batch.image.numpy().tobytes(), batch.context, batch.answers


@pytest.mark.parametrize("workers", [0, 2])
def test_it_trains_as_one_dataset_does(source: str, poly: str, tmp_path: Path, workers: int) -> None:
    mono = prepared(source, tmp_path / "mono", "monolithic")

    found = batches(poly, workers=workers)

    assert [plain(each) for each in found] == [plain(each) for each in batches(mono, workers=workers)]
    assert {type(each).__name__ for each in found} == {"VQABatch"}


def test_its_blend_file_trains_with_the_cooker_beside_it(source: str, poly: str, tmp_path: Path) -> None:
    scope: dict[str, Any] = {}
    exec((Path(poly) / "cook.py").read_text(), scope)  # noqa: S102 - what a user imports

    class Encoder(DefaultTaskEncoder):
        cookers = (Cooker(scope["cook"]),)

    cooked = batches(f"{poly}/blend.yaml", encoder=Encoder())

    assert [plain(each) for each in cooked] == [plain(each) for each in batches(poly)]


def test_a_blend_mixes_it_with_others(source: str, poly: str, tmp_path: Path) -> None:
    mono = prepared(source, tmp_path / "mono", "monolithic")
    blend = tmp_path / "blend.yaml"
    blend.write_text(
        f"splits:\n  train:\n    blend:\n      - {{path: {poly}, weight: 1}}\n      - {{path: {mono}, weight: 1}}\n"
    )

    found = batches(str(blend), 12)

    assert len({key for batch in found for key in batch.__key__}) > 12


def test_it_resumes_where_it_stopped(poly: str) -> None:
    def loader() -> Any:
        return get_loader(get_train_dataset(poly, batch_size=4))

    first = loader()
    steps = iter(first)
    for _ in range(3):
        next(steps)
    state = first.state_dict()
    expected = [plain(next(steps)) for _ in range(4)]

    resumed = loader()
    resumed.load_state_dict(state)

    assert [plain(batch) for batch, _ in zip(resumed, range(4), strict=False)] == expected


def test_other_media_are_another_state(source: str, poly: str, tmp_path: Path) -> None:
    first = get_loader(get_train_dataset(poly, batch_size=4))
    next(iter(first))
    state = first.state_dict()
    for i in range(4):
        (Path(source).parent / f"{i}.png").write_bytes(a_picture(200, i))
    other = prepared(source, tmp_path / "other", "polylithic")

    resumed = get_loader(get_train_dataset(other, batch_size=4))

    with pytest.raises(StateMismatch):
        resumed.load_state_dict(state, strict=True)


def test_single_samples_are_those_of_one_dataset(source: str, poly: str, tmp_path: Path) -> None:
    mono = wdsctl.Dataset(prepared(source, tmp_path / "mono", "monolithic"))

    found = wdsctl.Dataset(poly)

    assert isinstance(found[0], VQASample)
    assert list(found.keys()) == list(mono.keys())
    for one, other in zip(found, mono, strict=True):
        assert (one.__key__, one.context, one.answers) == (other.__key__, other.context, other.answers)
        assert (one.image == other.image).all()
    assert [len(each.file_names) for each in found[0].__sources__ or ()] == [2, 1]
    assert len(pickle.loads(pickle.dumps(found))) == len(found.split("train")) == 24  # noqa: S301 - our own bytes


def test_undecoded_samples_have_the_bytes_of_all_parts(source: str, poly: str) -> None:
    sample = wdsctl.Dataset(poly, decode=False)["2-5"]

    assert sample["png"] == (Path(source).parent / "2.png").read_bytes()
    assert json.loads(sample["json"])["answer"] == "this 2"
    assert "refs.json" not in sample


def test_a_cooker_gets_complete_samples(poly: str) -> None:
    (Path(poly) / "monolithic.yaml").unlink()

    @cooker
    def cook(sample: Any) -> Any:
        return {**sample, "size": sample["png"].shape[-1]}

    class Encoder(DefaultTaskEncoder):
        cookers = (Cooker(cook),)

    assert batches(poly, 1, encoder=Encoder())[0]["size"] == [8, 8, 8, 8]


def test_jsonl_primaries_are_completed_too(source: str, poly: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    convert([poly], str(lines), ConvertRequest(layout="polylithic", media=("png",), primary="jsonl"))

    found, expected = wdsctl.Dataset(lines), wdsctl.Dataset(poly)

    for one, other in zip(found, expected, strict=True):
        assert (one.__key__, one.context, one.answers) == (other.__key__, other.context, other.answers)
        assert (one.image == other.image).all()


def test_a_reference_that_leads_nowhere_fails_its_sample_and_names_all(poly: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "rows.jsonl").write_text(json.dumps({"id": "x", "image": "x.png"}) + "\n")
    (other / "x.png").write_bytes(a_picture(8, 1))
    media = prepared(str(other / "rows.jsonl"), tmp_path / "small", "polylithic")
    (Path(poly) / "media").rename(tmp_path / "away")
    (Path(media) / "media").rename(Path(poly) / "media")

    with pytest.raises(SampleFailed) as caught:
        wdsctl.Dataset(poly)[0]

    assert caught.value.code == "WDS550"
    assert "0-0" in caught.value.where
    assert "media" in caught.value.where


def test_it_is_no_primary_of_a_join(source: str, poly: str, tmp_path: Path) -> None:
    mono = prepared(source, tmp_path / "mono", "monolithic")
    blend = tmp_path / "blend.yaml"
    blend.write_text(f"splits:\n  train:\n    join:\n      - path: {poly}\n      - path: {mono}\n")

    with pytest.raises(UsageError, match="join"):
        batches(str(blend), 1)
