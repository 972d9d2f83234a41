"""Code in the folder of a dataset builds samples if the user trusts it, and is not even read otherwise."""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import a_dataset, digest
from tests.loader.running import make_training_loader, raising_worker_config, take_batches
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader import CaptioningSample, Sample, TextSample, WorkerConfig, edataclass

CODE = """\
from __future__ import annotations
import os, pathlib
from dataclasses import dataclass
pathlib.Path(os.environ["RAN"]).touch()

def sample_loader(raw):
    return {"__key__": "key-" + raw["__key__"], "text": raw["txt"] + b"!", }

@dataclass
class Words:
    first: str

def part_filter(name):
    return name == "txt"

def broken(raw):
    return 5
"""


@edataclass
class Labelled(CaptioningSample):
    label: int
    source: str = "unknown"


@edataclass
class Kept(Sample):
    text: Any
    words: list[str]
    length: int = 0
    more: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.length = len(self.text)


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    return a_dataset(tmp_path / "data", 20)


def write_config(dataset: str, text: str, code: str = CODE) -> None:
    meta = Path(dataset) / ".wdsctl"
    (meta / "dataset.yaml").write_text(text)
    (meta / "sample_loader.py").write_text(code)


def first(path: str, **options: Any) -> Any:
    (sample,) = take_batches(
        make_training_loader(path, batch_size=None, worker_config=raising_worker_config(), **options), 1
    )
    return sample


LOADER = """sample_type: TextSample
sample_loader: sample_loader.py:sample_loader
part_filter: sample_loader.py:part_filter
"""


def test_untrusted_code_is_rejected_without_running(dataset: str) -> None:
    write_config(dataset, LOADER)

    with pytest.raises(UsageError, match=r"dataset\.yaml names code") as raised:
        first(dataset)

    assert raised.value.code == "WDS222"
    assert "trust_code=True" in raised.value.hint
    assert not os.path.exists(os.environ["RAN"])


def test_sample_loader_builds_fields_from_filtered_parts(dataset: str) -> None:
    write_config(dataset, LOADER)
    sample = first(dataset, trust_code=True)

    assert not (Path(dataset) / ".wdsctl" / "__pycache__").exists()
    assert isinstance(sample, TextSample)
    text: Any = sample.text
    assert text == b"text %d!" % int(sample.__key__.removeprefix("key-"))
    assert sample.__sources__ is not None
    assert sample.__restore_key__[0] == 0


def test_workers_run_code_of_dataset(dataset: str) -> None:
    write_config(dataset, LOADER)
    inline, workers = (
        make_training_loader(dataset, trust_code=True, worker_config=WorkerConfig(0, 1, num_workers=count))
        for count in (0, 2)
    )

    assert [digest(batch) for batch in take_batches(workers, 6)] == [digest(batch) for batch in take_batches(inline, 6)]


def test_crude_dataset_accepts_sample_loader_or_part_list(dataset: str) -> None:
    write_config(dataset, "sample_type: CrudeSample\nsample_loader: sample_loader.py:sample_loader\n")
    assert first(dataset, trust_code=True)["text"].endswith(b"!")

    write_config(dataset, "sample_type: CrudeSample\npart_filter: [json]\n")
    sample = first(dataset)
    assert "json" in sample
    assert "txt" not in sample


def test_optional_field_of_crude_sample_is_none(dataset: str) -> None:
    write_config(dataset, "sample_type: CrudeSample\nfield_map: {text: txt, depth: depth.npy}\noptional: [depth]\n")
    sample = first(dataset)
    assert sample["text"]
    assert sample["depth"] is None

    write_config(dataset, "sample_type: CrudeSample\nfield_map: {text: txt, depth: depth.npy}\n")
    assert "depth" not in first(dataset)


def test_faulty_code_of_dataset_is_reported(dataset: str) -> None:
    write_config(dataset, "sample_type: CrudeSample\nsample_loader: sample_loader.py:sample_loadr\n")
    with pytest.raises(UsageError, match="no function 'sample_loadr'"):
        first(dataset, trust_code=True)
    write_config(dataset, "sample_type: CrudeSample\nsample_loader: sample_loader.py:broken\n")
    with pytest.raises(LoaderError, match="sample_loader returned int"):
        first(dataset, trust_code=True)
    write_config(dataset, "sample_type: CrudeSample\nsample_loader: sample_loader.py:f\n", "1 / 0")
    with pytest.raises(UsageError, match="the code raises ZeroDivisionError"):
        first(dataset, trust_code=True)
    write_config(dataset, "sample_type: CrudeSample\nsample_loader: other.py:f\n")
    with pytest.raises(UsageError, match=r"cannot read the code that dataset\.yaml names: No such file"):
        first(dataset, trust_code=True)


def test_changed_code_changes_recipe(dataset: str) -> None:
    write_config(dataset, LOADER)
    state = make_training_loader(dataset, trust_code=True).state_dict()
    write_config(dataset, LOADER, CODE + "\n# changed")

    with pytest.warns(UserWarning, match="field map"):
        make_training_loader(dataset, trust_code=True).load_state_dict(state)


def test_custom_sample_type_is_filled_by_field_map(tmp_path: Path) -> None:
    sample_type = f"{__name__}:Labelled"
    fields = {"image": "bin", "caption": "txt", "label": "json[number]"}
    data = a_dataset(
        tmp_path,
        12,
        parts=lambda i: {"bin": b"pixels", "txt": b"a cat", "json": b'{"number": %d}' % i},
        sample_type=sample_type,
        field_map=fields,
    )
    sample = first(data, trust_code=True)

    assert (type(sample), sample.image, sample.caption, sample.source) == (Labelled, b"pixels", b"a cat", "unknown")
    assert sample.label == int(sample.__key__)


def test_batches_of_custom_sample_type_have_its_fields(dataset: str) -> None:
    write_config(dataset, f"sample_type: {__name__}:Kept\nfield_map: {{text: txt, words: json}}\n")
    (batch,) = take_batches(make_training_loader(dataset, trust_code=True), 1)

    assert [str(text, "utf-8") for text in batch.text] == [f"text {int(key)}" for key in batch.__key__]
    assert list(batch.length) == [len(text) for text in batch.text]
    assert batch.more == [[]] * 4


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_build_samples_of_custom_type(method: Any, dataset: str) -> None:
    write_config(dataset, f"sample_type: {__name__}:Kept\nfield_map: {{text: txt, words: json}}\n")
    workers = WorkerConfig(0, 1, num_workers=1, start_method=method)
    (sample,) = take_batches(make_training_loader(dataset, batch_size=None, trust_code=True, worker_config=workers), 1)

    assert type(sample) is Kept


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        (f"{__name__}:Kept", "{text: txt, wrods: json}", "Kept has no field 'wrods'"),
        (f"{__name__}:Kept", "{text: txt}", "needs a value for 'words'"),
        (f"{__name__}:Kept", "{text: txt, words: json}\noptional: [json]", "Kept requires words"),
        (f"{__name__}:Nothing", "{text: txt}", "has no 'Nothing'"),
        ("no_such_module:Kept", "{text: txt}", "no module"),
        ("pathlib:Path", "{text: txt}", "is not a sample type"),
    ],
)
def test_unusable_sample_type_is_reported(name: str, fields: str, words: str, dataset: str) -> None:
    write_config(dataset, f"sample_type: {name}\nfield_map: {fields}\n")

    with pytest.raises(UsageError, match=words) as raised:
        first(dataset, trust_code=True)

    assert raised.value.code == "WDS220"
