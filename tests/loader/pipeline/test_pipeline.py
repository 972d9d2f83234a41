"""A state restores with another recipe (other hooks, other batch sizes), and every sample still comes once."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.running import Twice, ids, make_training_loader, save_state_after
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import Buckets, Packing, get_train_dataset
from wdsctl.loader.pipeline.pipeline import Pipeline
from wdsctl.loader.recipe.dataset import is_count_preserving

SAMPLES = 96


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=30, parts=numbered)


class Upper(Raw):
    def encode_sample(self, sample: Any) -> Any:
        return {**sample, "txt": sample["txt"].upper()}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"batch_size": 4}, {"batch_size": 6}),
        ({"batch_size": 4}, {"batch_size": None}),
        ({}, {"encoder": Upper()}),
        ({"encoder": Upper()}, {}),
        ({"encoder": Upper()}, {"encoder": Upper(), "batch_size": 5}),
    ],
    ids=["larger batches", "no batches", "a hook more", "a hook less", "another batch size with a hook"],
)
def test_restoring_other_recipe_warns_and_repeats_no_sample(
    before: dict[str, Any], after: dict[str, Any], dataset: str
) -> None:
    loader = make_training_loader(dataset, **before)
    first = list(islice(loader, 9))
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = make_training_loader(dataset, **after)

    with pytest.raises(StateMismatch, match="recipe: "):
        resumed.load_state_dict(state, strict=True)
    with pytest.warns(UserWarning, match="each sample still appears once"):
        resumed.load_state_dict(state)

    rest = list(islice(resumed, 3 * SAMPLES))
    is_single = after.get("batch_size", 4) is None
    counts = Counter([*ids(first), *([sample["__restore_key__"] for sample in rest] if is_single else ids(rest))])
    assert set(counts.values()) == {1}
    assert Counter(epoch for _, epoch, _ in counts)[0] == SAMPLES


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 9, 17])
@pytest.mark.parametrize("after", [Raw(), Upper()], ids=["no hook", "a hook that gives one"])
def test_partly_emitted_sample_is_not_repeated_with_other_hook(steps: int, after: Raw, dataset: str) -> None:
    loader = make_training_loader(dataset, encoder=Twice(), batch_size=3, lanes=2)
    first = {key[:3] for key in ids(list(islice(loader, steps)))}
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = make_training_loader(dataset, encoder=after, batch_size=3, lanes=2)
    with pytest.warns(UserWarning, match="other hooks"):
        resumed.load_state_dict(state)

    rest = ids(list(islice(resumed, 80)))

    counts = Counter([*first, *rest])
    assert set(counts.values()) == {1}
    assert Counter(epoch for _, epoch, _ in counts)[0] == SAMPLES


def test_restoring_with_changed_field_map_warns(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 40, sample_type="TextSample", field_map={"text": "txt"})
    loader = make_training_loader(root)
    state = save_state_after(loader, 3)
    path = tmp_path / ".wdsctl" / "dataset.yaml"
    path.write_text(path.read_text().replace("text: txt", "text: json[number]"))

    with pytest.warns(UserWarning, match="field map"):
        make_training_loader(root).load_state_dict(state)


def test_restoring_same_recipe_does_not_warn(dataset: str) -> None:
    state = save_state_after(make_training_loader(dataset, encoder=Upper()), 3)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_training_loader(dataset, encoder=Upper()).load_state_dict(state, strict=True)


def test_finite_passes_run_every_stage_that_a_pipeline_may_have(dataset: str) -> None:
    packing = Packing(length=lambda _: 1, capacity=3)
    buckets = Buckets(of=lambda _: 1, edges=[7])
    options: dict[str, Any] = {"pack": {"packing": packing}, "group": {"buckets": buckets}}
    stages = {
        each.name
        for each in dataclasses.fields(Pipeline)
        if str(each.type).endswith(("Stage | None", "StageLike | None"))
    }

    assert stages - {"bulk"} == set(options), "a new stage: see `is_count_preserving`, and add an option for it here"
    for arguments in options.values():
        assert not is_count_preserving(get_train_dataset(dataset, batch_size=4, repeat=False, **arguments))
