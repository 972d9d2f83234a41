"""Data can name what the user's program has registered, in all processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.loader.datasets import a_dataset
from tests.loader.running import make_training_loader, raising_worker_config, take_batches
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader import Sample, TextSample, edataclass, register_joiner, register_sample_type
from wdsctl.loader.samples import registry


@edataclass
class Words(TextSample):
    @property
    def words(self) -> int:
        return len(str(self.text).split())


def pair(first: Any, second: Any) -> Any:
    return {**first, "second": second["txt"]}


@pytest.fixture(autouse=True)
def _restore_registry() -> Iterator[None]:
    registered, received = dict(registry._registered), dict(registry._received)
    yield
    for table, before in ((registry._registered, registered), (registry._received, received)):
        table.clear()
        table.update(before)


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "data", 12)


def write_config(dataset: str, text: str) -> None:
    (Path(dataset) / ".wdsctl" / "dataset.yaml").write_text(text)


def first(path: Any, **options: Any) -> Any:
    (sample,) = take_batches(
        make_training_loader(path, batch_size=None, worker_config=raising_worker_config(), **options), 1
    )
    return sample


def blend_of(dataset: str, joiner: str) -> str:
    blend = Path(dataset).parent / "blend.yaml"
    blend.write_text(f"splits: {{train: {{join: [{{path: data}}, {{path: data}}], joiner: {joiner}}}}}\n")
    return str(blend)


def test_registered_joiner_needs_no_trust_code(dataset: str) -> None:
    register_joiner(pair)
    sample = first(blend_of(dataset, f"'{__name__}:pair'"))

    assert sample["second"] == sample["txt"]


def test_registered_sample_type_needs_no_trust_code_and_joins(dataset: str) -> None:
    write_config(dataset, f"sample_type: {__name__}:Words\nfield_map: {{text: txt}}\n")
    assert register_sample_type(Words) is Words

    assert isinstance(first(dataset), Words)
    assert isinstance(first(blend_of(dataset, f"'{__name__}:Words'")), Words)


def test_register_joiner_with_same_name_replaces_it(dataset: str) -> None:
    register_joiner(lambda *_: None, "mine:pair")
    register_joiner(lambda a, _: {**a, "last": True}, "mine:pair")

    assert first(blend_of(dataset, "'mine:pair'"))["last"]


@pytest.mark.parametrize("name", ["pair", "mine", "a b:c", "mine:"])
def test_register_joiner_rejects_name_without_module(name: str) -> None:
    with pytest.raises(UsageError, match="is not of the form module:name"):
        register_joiner(pair, name)


def test_register_rejects_objects_of_wrong_kind() -> None:
    with pytest.raises(UsageError, match="is not a joiner"):
        register_joiner(7)  # type: ignore[type-var]
    with pytest.raises(UsageError, match="is not a sample type"):
        register_sample_type(Path)  # type: ignore[type-var]


SCRIPT = """
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset, register_joiner
from tests.loader.samples.test_registry import pair

if __name__ == "__main__":
    register_joiner(pair, "mine:pair")
    workers = WorkerConfig(0, 1, num_workers=1, start_method={start!r})
    with get_loader(get_train_dataset({blend!r}, batch_size=2, worker_config=workers)) as loader:
        print(next(iter(loader))["second"][0][:4])
"""


@pytest.mark.parametrize("start", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_workers_find_joiner_registered_in_main_script(start: str, dataset: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(start=start, blend=blend_of(dataset, "'mine:pair'")))
    env = os.environ | {"PYTHONPATH": os.getcwd()}
    process = children.run(
        (sys.executable, str(script)),
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        parent="training",
    )

    assert (process.returncode, process.stdout) == (0, "text\n"), process.stderr


def test_unpicklable_joiner_is_reported_when_worker_looks_it_up() -> None:
    register_joiner(lambda a, _: a, "mine:lambda")
    pickled = registry.pickle_registered()
    registry._registered.clear()
    registry.receive_registered(pickled)

    with pytest.raises(LoaderError, match="cannot send mine:lambda to a worker") as raised:
        registry.find_registered("mine:lambda")
    assert raised.value.code == "WDS531"


def test_received_registry_contains_pickled_joiner() -> None:
    register_joiner(pair)
    pickled = registry.pickle_registered()
    registry._registered.clear()
    registry.receive_registered(pickled)

    assert registry.find_registered(f"{__name__}:pair") is pair
    assert issubclass(Words, Sample)
