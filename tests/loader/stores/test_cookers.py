"""Cookers build samples from crude ones; each dataset uses the first cooker that matches its subflavors."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.running import digests, make_training_loader, raising_worker_config, save_state_after
from wdsctl.core.blend import Blender
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader import SkipSample, TextSample, stateless
from wdsctl.loader.samples.build import SourceInfo
from wdsctl.loader.stores.cookers import Cooker, CookerNeeds, basic_sample_keys, cooker, cooker_needs, find_cooker


def plain(sample: Any) -> TextSample:
    return TextSample(**basic_sample_keys(sample), text=sample["txt"].decode())


@stateless
def loud(sample: Any) -> TextSample:
    return TextSample(**basic_sample_keys(sample), text=sample["txt"].decode().upper())


class Cooks(Raw):
    cookers = (Cooker(loud, has_subflavors={"loud": True}), Cooker(plain))

    def encode_sample(self, sample: TextSample) -> Any:
        return TextSample.derive_from(sample, text=f"<{sample.text}>")


# Choice of the cooker.


def test_find_cooker_returns_first_with_matching_subflavors() -> None:
    cookers = [Cooker(loud, has_subflavors={"a": 1, "b": 2}), Cooker(loud, has_subflavors={"a": 1}), Cooker(plain)]

    chosen = [
        cookers.index(find_cooker(cookers, each, "data")) for each in ({"a": 1, "b": 2}, {"a": 1}, {"a": 2}, None)
    ]

    assert chosen == [0, 1, 2, 2]


def test_find_cooker_rejects_dataset_without_matching_cooker() -> None:
    with pytest.raises(UsageError, match=r"no cooker matches subflavors \{'a': 2\}") as raised:
        find_cooker([Cooker(plain, has_subflavors={"a": 1})], {"a": 2}, "data")

    assert raised.value.where == "data"
    assert "{'a': 1}" in raised.value.hint


def test_cooker_needs_are_set_by_decorator() -> None:
    def cook(sample: Any, primary: Any) -> Any:
        return sample, primary

    assert cooker_needs(cook) == CookerNeeds(cache=False, primary=False)
    assert cooker_needs(cooker(need_primary=True)(cook)) == CookerNeeds(cache=False, primary=True)


def test_cooker_decorator_works_with_and_without_brackets() -> None:
    def cook(sample: Any) -> Any:
        return sample

    for decorated in (cooker(cook), cooker()(cook)):
        assert find_cooker([Cooker(decorated)], None, "data").cook is cook


def test_basic_sample_keys_appends_sources() -> None:
    crude = {"__key__": "1", "__restore_key__": (0, 0, 1), "__sources__": ("one",), "txt": b"x"}

    assert basic_sample_keys(crude) == {
        "__key__": "1",
        "__restore_key__": (0, 0, 1),
        "__subflavors__": None,
        "__sources__": ("one",),
    }
    source: Any = SourceInfo
    assert basic_sample_keys(crude, [source])["__sources__"] == ("one", SourceInfo)


# In a training.


def test_cooker_runs_before_hooks(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 20, parts=numbered)
    loader = make_training_loader(path, encoder=Cooks(), batch_size=None)

    for sample in islice(loader, 30):
        assert isinstance(sample, TextSample)
        assert sample.text == f"<text {int(sample.__key__)}>"
        assert [source.dataset_path for source in sample.__sources__ or ()] == [path]


def test_every_dataset_of_blend_has_its_own_cooker(tmp_path: Path) -> None:
    one, two = (a_dataset(tmp_path / name, 20, parts=numbered) for name in "ab")
    blend = Blender([({"path": one, "subflavors": {"loud": True}}, 1), (two, 1)])

    for sample in islice(make_training_loader(blend, encoder=Cooks(), batch_size=None), 40):
        assert sample.text.isupper() == (sample.__restore_key__[0] == 0)


def test_typed_samples_are_not_cooked(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 20, parts=numbered, sample_type="TextSample", field_map={"text": "txt"})

    class Refuses(Raw):
        cookers = (Cooker(lambda _: pytest.fail("a typed sample was cooked")),)

    assert len(list(islice(make_training_loader(path, encoder=Refuses()), 5))) == 5


def test_training_with_generator_cooker_resumes_exactly(tmp_path: Path) -> None:
    def several(sample: Any) -> Any:
        number = int(sample["__key__"])
        if number % 5 == 0:
            raise SkipSample
        for copy in range(number % 3):
            yield {**sample, "copy": copy, "noise": float(torch.rand(1))}

    class Several(Raw):
        cookers = (Cooker(several),)

    path = a_dataset(tmp_path, 40, parts=numbered)
    expected = digests(make_training_loader(path, encoder=Several(), lanes=2), 30)

    for place in range(1, 25, 3):
        resumed = make_training_loader(path, encoder=Several(), lanes=2)
        resumed.load_state_dict(save_state_after(make_training_loader(path, encoder=Several(), lanes=2), place))
        assert digests(resumed, 30 - place) == expected[place:]


def test_failing_cooker_is_reported_with_its_sample(tmp_path: Path) -> None:
    def fails(sample: Any) -> Any:
        raise ValueError("burnt")

    class Fails(Raw):
        cookers = (Cooker(fails),)

    path = a_dataset(tmp_path, 20, parts=numbered)
    with pytest.raises(SampleFailed, match="cook_crude_sample failed: ValueError: burnt") as raised:
        next(
            iter(
                make_training_loader(
                    path, encoder=Fails(), shuffle=False, lanes=1, worker_config=raising_worker_config()
                )
            )
        )

    assert raised.value.where == f"dataset {path}, shard shard-000.tar, key 000000"
