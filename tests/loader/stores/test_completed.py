"""A polylithic folder is read as one dataset: its samples are completed with their media without a cooker."""

from __future__ import annotations

import io
import json
import pickle
import shutil
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


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("data") / "a"
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


def prepare_dataset(source: str, dest: Path, layout: Any) -> str:
    request = PrepareRequest(format_options={"key": "id"}, layout=layout, split={"train": 1}, accept_type=True)
    prepare(source, str(dest), request)
    return str(dest)


@pytest.fixture(scope="module")
def poly(source: str) -> str:
    return prepare_dataset(source, Path(source).parent.parent / "poly", "polylithic")


@pytest.fixture(scope="module")
def mono(source: str) -> str:
    return prepare_dataset(source, Path(source).parent.parent / "mono", "monolithic")


@pytest.fixture
def own_poly(poly: str, tmp_path: Path) -> str:
    """A copy of `poly` for tests that change it."""
    return shutil.copytree(poly, str(tmp_path / "poly"))


def batches(path: str, count: int = 9, workers: int = 0, encoder: Any = None) -> list[Any]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    loader = get_loader(get_train_dataset(path, batch_size=4, worker_config=config, task_encoder=encoder))
    return [batch for batch, _ in zip(loader, range(count), strict=False)]


def comparable(batch: Any) -> Any:
    return batch.__key__, batch.image.numpy().tobytes(), batch.context, batch.answers


@pytest.mark.parametrize("workers", [0, 2])
def test_polylithic_folder_trains_like_monolithic_dataset(poly: str, mono: str, workers: int) -> None:
    actual = batches(poly, workers=workers)

    assert [comparable(each) for each in actual] == [comparable(each) for each in batches(mono, workers=workers)]
    assert {type(each).__name__ for each in actual} == {"VQABatch"}


def test_blend_file_of_polylithic_folder_trains_with_its_cooker(poly: str) -> None:
    scope: dict[str, Any] = {}
    exec((Path(poly) / "cook.py").read_text(), scope)  # noqa: S102 - what a user imports

    class Encoder(DefaultTaskEncoder):
        cookers = (Cooker(scope["cook"]),)

    cooked = batches(f"{poly}/blend.yaml", encoder=Encoder())

    assert [comparable(each) for each in cooked] == [comparable(each) for each in batches(poly)]


def test_polylithic_folder_can_be_blended(poly: str, mono: str, tmp_path: Path) -> None:
    blend = tmp_path / "blend.yaml"
    blend.write_text(
        f"splits:\n  train:\n    blend:\n      - {{path: {poly}, weight: 1}}\n      - {{path: {mono}, weight: 1}}\n"
    )

    actual = batches(str(blend), 12)

    assert len({key for batch in actual for key in batch.__key__}) > 12


def test_training_on_polylithic_folder_resumes_exactly(poly: str) -> None:
    def loader() -> Any:
        return get_loader(get_train_dataset(poly, batch_size=4))

    first = loader()
    steps = iter(first)
    for _ in range(3):
        next(steps)
    state = first.state_dict()
    expected = [comparable(next(steps)) for _ in range(4)]

    resumed = loader()
    resumed.load_state_dict(state)

    assert [comparable(batch) for batch, _ in zip(resumed, range(4), strict=False)] == expected


def test_state_rejects_polylithic_folder_with_other_media(source: str, poly: str, tmp_path: Path) -> None:
    first = get_loader(get_train_dataset(poly, batch_size=4))
    next(iter(first))
    state = first.state_dict()
    changed = shutil.copytree(Path(source).parent, tmp_path / "a")
    for i in range(4):
        (changed / f"{i}.png").write_bytes(a_picture(200, i))
    other = prepare_dataset(str(changed / "rows.jsonl"), tmp_path / "other", "polylithic")

    resumed = get_loader(get_train_dataset(other, batch_size=4))

    with pytest.raises(StateMismatch):
        resumed.load_state_dict(state, strict=True)


def test_dataset_reads_polylithic_samples_like_monolithic_ones(poly: str, mono: str) -> None:
    actual, expected = wdsctl.Dataset(poly), wdsctl.Dataset(mono)

    assert isinstance(actual[0], VQASample)
    assert list(actual.keys()) == list(expected.keys())
    for one, other in zip(actual, expected, strict=True):
        assert (one.__key__, one.context, one.answers) == (other.__key__, other.context, other.answers)
        assert (one.image == other.image).all()
    assert [len(each.file_names) for each in actual[0].__sources__ or ()] == [2, 1]
    assert len(pickle.loads(pickle.dumps(actual))) == len(actual.split("train")) == 24  # noqa: S301 - our own bytes


def test_undecoded_polylithic_samples_have_bytes_of_all_parts(source: str, poly: str) -> None:
    sample = wdsctl.Dataset(poly, decode=False)["2-5"]

    assert sample["png"] == (Path(source).parent / "2.png").read_bytes()
    assert json.loads(sample["json"])["answer"] == "this 2"
    assert "refs.json" not in sample


def test_cooker_receives_completed_samples(own_poly: str) -> None:
    (Path(own_poly) / "monolithic.yaml").unlink()

    @cooker
    def cook(sample: Any) -> Any:
        return {**sample, "size": sample["png"].shape[-1]}

    class Encoder(DefaultTaskEncoder):
        cookers = (Cooker(cook),)

    assert batches(own_poly, 1, encoder=Encoder())[0]["size"] == [8, 8, 8, 8]


def test_jsonl_primary_samples_are_completed(poly: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    convert([poly], str(lines), ConvertRequest(layout="polylithic", media=("png",), primary="jsonl"))

    actual, expected = wdsctl.Dataset(lines), wdsctl.Dataset(poly)

    for one, other in zip(actual, expected, strict=True):
        assert (one.__key__, one.context, one.answers) == (other.__key__, other.context, other.answers)
        assert (one.image == other.image).all()


def test_unresolved_reference_fails_its_sample(own_poly: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "rows.jsonl").write_text(json.dumps({"id": "x", "image": "x.png"}) + "\n")
    (other / "x.png").write_bytes(a_picture(8, 1))
    media = prepare_dataset(str(other / "rows.jsonl"), tmp_path / "small", "polylithic")
    (Path(own_poly) / "media").rename(tmp_path / "away")
    (Path(media) / "media").rename(Path(own_poly) / "media")

    with pytest.raises(SampleFailed) as caught:
        wdsctl.Dataset(own_poly)[0]

    assert caught.value.code == "WDS550"
    assert "0-0" in caught.value.where
    assert "media" in caught.value.where


def test_join_rejects_polylithic_primary(poly: str, mono: str, tmp_path: Path) -> None:
    blend = tmp_path / "blend.yaml"
    blend.write_text(f"splits:\n  train:\n    join:\n      - path: {poly}\n      - path: {mono}\n")

    with pytest.raises(UsageError, match="join"):
        batches(str(blend), 1)
