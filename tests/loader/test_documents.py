"""Documents of texts and images become sequences with each decoded image in its place."""

from __future__ import annotations

import importlib.util
import io
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.build import a_dataset, a_folder
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.config import load_config
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.core.validate.validate import validate
from wdsctl.loader import (
    Cooker,
    DefaultTaskEncoder,
    InterleavedSample,
    SampleDecoder,
    WorkerConfig,
    compose_fields,
    get_loader,
    get_savable_loader,
    get_train_dataset,
)
from wdsctl.loader import energon as energon_names
from wdsctl.loader.runtime.failures import reraise_exception

COUNT = 8
MANY = 12  # so that numeric order differs from that of texts


def picture(width: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, 3), (width, 0, 0)).save(file, "PNG")
    return file.getvalue()


#: Documents as lists of texts and the widths of images.
Document = list[str | int]
_LAST: list[Document] = [[i, f"text {i}"] for i in range(20, 20 + COUNT - 5)]
DOCUMENTS: list[Document] = [
    ["one", 3, "two"],
    [5, 6, "after both"],
    ["no image"],
    [each for width in range(1, MANY + 1) for each in (f"before {width}", width)],
    [9],
    *_LAST,
]


def a_file(folder: Path) -> Path:
    rows = [
        {
            "id": f"doc {i}",
            # The last place has lost its image.
            "images": [None if isinstance(each, str) else f"images/{each}.png" for each in document] + [None],
            "texts": [each if isinstance(each, str) else None for each in document] + [None],
        }
        for i, document in enumerate(DOCUMENTS)
    ]
    widths = {each for document in DOCUMENTS for each in document if isinstance(each, int)}
    files = {f"images/{width}.png": picture(width) for width in widths}
    return Path(a_folder(folder, {"docs.jsonl": "\n".join(map(json.dumps, rows)).encode(), **files})) / "docs.jsonl"


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder("torchrgb8")


def contents_of(sequence: list[Any]) -> list[str | int]:
    """An image is its width, which is also the color of its pixels."""
    found: list[str | int] = []
    for each in sequence:
        if not isinstance(each, str):
            assert each[0].unique().tolist() == [each.shape[-1]]
        found.append(each if isinstance(each, str) else each.shape[-1])
    return found


def a_train_dataset(path: Path, encoder: Any = None, workers: int = 0) -> Any:
    config = WorkerConfig(0, 1, workers, global_error_handler=reraise_exception)
    return get_train_dataset(str(path), task_encoder=encoder or Encoder(), worker_config=config)


def samples_of(path: Path, encoder: Any = None, workers: int = 0) -> dict[str, InterleavedSample]:
    loader = get_loader(a_train_dataset(path, encoder, workers))
    return {sample.__key__: sample for sample in islice(loader, COUNT)}


EXPECTED = {f"doc {i}": document for i, document in enumerate(DOCUMENTS)}


@pytest.mark.parametrize("workers", [0, 2])
def test_images_of_documents_are_in_their_places(tmp_path: Path, workers: int) -> None:
    prepare(str(a_file(tmp_path / "raw")), str(tmp_path / "out"), PrepareRequest())

    samples = samples_of(tmp_path / "out", workers=workers)

    assert {key: contents_of(sample.sequence) for key, sample in samples.items()} == EXPECTED
    for sample in samples.values():
        assert [id(each) for each in sample.images] == [
            id(each) for each in sample.sequence if not isinstance(each, str)
        ]
    report = validate(str(tmp_path / "out"), ValidateRequest(levels=("load", "schema")))
    assert [finding for finding in report.findings if finding.severity != "note"] == []


def test_training_on_documents_continues_after_a_state(tmp_path: Path) -> None:
    prepare(str(a_file(tmp_path / "raw")), str(tmp_path / "out"), PrepareRequest())
    loader = get_savable_loader(a_train_dataset(tmp_path / "out"))
    list(islice(loader, 5))
    state = loader.save_state_rank()
    rest = [(sample.__key__, contents_of(sample.sequence)) for sample in islice(loader, 2 * COUNT)]

    resumed = get_savable_loader(a_train_dataset(tmp_path / "out"))
    resumed.restore_state_rank(state)

    assert [(sample.__key__, contents_of(sample.sequence)) for sample in islice(resumed, 2 * COUNT)] == rest
    assert all(contents == EXPECTED[key] for key, contents in rest)


def test_cooker_of_polylithic_conversion_builds_same_documents(tmp_path: Path) -> None:
    prepare(str(a_file(tmp_path / "raw")), str(tmp_path / "flat"), PrepareRequest())
    convert([str(tmp_path / "flat")], str(tmp_path / "out"), ConvertRequest(media=("png",), layout="polylithic"))
    spec = importlib.util.spec_from_file_location("cook_of_documents", tmp_path / "out/cook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Cooks(Encoder):
        cookers = (Cooker(module.cook),)

    samples = samples_of(tmp_path / "out/blend.yaml", Cooks())

    assert {key: contents_of(sample.sequence) for key, sample in samples.items()} == EXPECTED
    report = validate(str(tmp_path / "out"), ValidateRequest())
    assert [finding for finding in report.findings if finding.severity == "error"] == []


def test_energon_classes_have_the_sequence_alone(tmp_path: Path) -> None:
    prepare(str(a_file(tmp_path / "raw")), str(tmp_path / "out"), PrepareRequest())
    config = energon_names.WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = energon_names.get_train_dataset(
        str(tmp_path / "out"),
        batch_size=None,
        worker_config=config,
        task_encoder=Encoder(),
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
    )

    samples = list(islice(get_loader(dataset), COUNT))

    assert {type(sample) for sample in samples} == {energon_names.InterleavedSample}
    assert not hasattr(samples[0], "images")
    assert {sample.__key__: contents_of(sample.sequence) for sample in samples} == EXPECTED


def test_energon_export_does_not_promise_images_in_places(tmp_path: Path) -> None:
    prepare(str(a_file(tmp_path / "raw")), str(tmp_path / "out"), PrepareRequest())

    report = export(ExportRequest(root=str(tmp_path / "out"), target="energon"))

    assert "CrudeWebdataset" in (tmp_path / "out/.nv-meta/dataset.yaml").read_text()
    assert any("no images into the places" in note for note in report.notes)


def test_prepare_detects_documents_in_tars(tmp_path: Path) -> None:
    files = {}
    for i in range(6):
        files[f"{i}.json"] = json.dumps({"images": ["pics/x.png", None], "texts": [None, f"text {i}"]}).encode()
        files[f"{i}.png"] = picture(i + 1)
    root = a_dataset(tmp_path, {"one.tar": files})

    prepare(root, None, PrepareRequest(split={"train": 1}))

    assert load_config(str(tmp_path / ".wdsctl/dataset.yaml")).sample_type == "InterleavedSample"
    assert contents_of(samples_of(tmp_path)["3"].sequence) == [4, "text 3"]


def test_list_without_mapped_images_stays_as_it_is(tmp_path: Path) -> None:
    sequence = ["one", {"part": "png"}, 3]
    document = json.dumps({"sequence": sequence}).encode()
    files = {f"{i}.{part}": data for i in range(4) for part, data in (("json", document), ("png", picture(2)))}
    root = a_dataset(tmp_path, {"one.tar": files})
    field_map = {"sequence": "json[sequence]"}
    prepare(root, None, PrepareRequest(sample_type="InterleavedSample", field_map=field_map, split={"train": 1}))

    sample = next(iter(samples_of(tmp_path).values()))

    assert (sample.sequence, sample.images) == (sequence, [])
    report = validate(root, ValidateRequest(levels=("schema",)))
    assert [finding for finding in report.findings if finding.severity != "note"] == []


def test_documents_that_do_not_fit_their_images_are_skipped_and_reported(tmp_path: Path) -> None:
    documents = [
        {"images": ["png", None], "texts": [None, "fits"]},
        {"images": ["a.png", "b.png"], "texts": [None, None]},
        {"images": [None, None], "texts": [None, None]},
        {"images": ["png"], "texts": ["both"]},
    ]
    files = {f"{i}.json": json.dumps(each).encode() for i, each in enumerate(documents)}
    files |= {f"{i}.png": picture(2) for i in range(4)}
    # The names say another order than that of the parts.
    files |= {
        "4.json": json.dumps({"images": ["b.png", None, "a.png"], "texts": [None, "x", None]}).encode(),
        "4.a.png": picture(1),
        "4.b.png": picture(2),
    }
    root = a_dataset(tmp_path, {"one.tar": dict(sorted(files.items()))})
    field_map = {"sequence": "json", "images": "*"}
    prepare(root, None, PrepareRequest(sample_type="InterleavedSample", field_map=field_map, split={"train": 1}))

    report = validate(root, ValidateRequest(levels=("schema",)))
    found = {finding.key for finding in report.findings if finding.code == "WDS174"}

    assert found == {"1", "2", "3", "4"}
    loader = get_loader(get_train_dataset(root, task_encoder=Encoder(), worker_config=WorkerConfig(0, 1, 0)))
    assert {sample.__key__ for sample in islice(loader, 4)} == {"0", "4"}
    assert loader.stats.failed > 0


def test_compose_fields_takes_a_document_and_its_images() -> None:
    values = {"sequence": {"images": [None, "a"], "texts": ["one", None]}, "images": ["the image"]}

    assert compose_fields(InterleavedSample, values) == {"sequence": ["one", "the image"], "images": ["the image"]}
