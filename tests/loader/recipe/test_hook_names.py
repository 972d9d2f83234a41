"""A misspelled hook would silently not run, so it causes a warning; similarly named helpers cause none."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from wdsctl.loader import AugmentTaskEncoder, DefaultTaskEncoder, get_train_dataset, get_val_dataset, stateless
from wdsctl.loader.recipe.hooks import closest_hook, misspelled_hooks
from wdsctl.loader.recipe.task_encoder import HOOKS

pytestmark = pytest.mark.usefixtures("unopened_datasets")

MISSPELT = {
    "encode_sampel": "encode_sample",
    "ecnode_sample": "encode_sample",
    "encod_sample": "encode_sample",
    "encode_samples": "encode_sample",
    "encodeSample": "encode_sample",
    "pre_encode_sample": "preencode_sample",
    "postencode_sampel": "postencode_sample",
    "select_sample_to_pack": "select_samples_to_pack",
    "select_samples_for_pack": "select_samples_to_pack",
    "pack_selected_sample": "pack_selected_samples",
    "pack_select_samples": "pack_selected_samples",
    "batch_group_criteria": "batch_group_criterion",
    "cook_crude_samples": "cook_crude_sample",
    "bacth": "batch",
    "encode_bacth": "encode_batch",
    "encode_batches": "encode_batch",
}
HELPERS = """
    batch_samples batch_images batch_size batches batched decode_sample decode_batch encode_image encode_text
    encode_patch encode_match encode_example encode_single_sample encode_sample_text encode_pack encode_sequence
    load_sample crude_sample cook_sample pack_samples select_samples select_packs unpack_selected_samples
    reencode_sample preencode_batch postencode_batch group_criterion tokenize config close inner
""".split()  # noqa: SIM905 - as a table


def encoder_with(*names: str, base: type = DefaultTaskEncoder, **attributes: Any) -> type:
    return type("Mine", (base,), {**{name: lambda _self, sample: sample for name in names}, **attributes})


@pytest.mark.parametrize(("name", "hook"), MISSPELT.items())
def test_misspelled_hooks_reports_closest_hook(name: str, hook: str) -> None:
    assert closest_hook(name) == hook
    assert list(misspelled_hooks(encoder_with(name))) == [("Mine", name, hook)]


@pytest.mark.parametrize("name", HELPERS)
def test_closest_hook_ignores_helper_names(name: str) -> None:
    assert closest_hook(name) is None


def test_misspelled_hooks_ignores_hooks_private_names_and_non_methods() -> None:
    assert not list(misspelled_hooks(encoder_with(*HOOKS, "_encode_sampel", "__encode_sample")))
    assert not list(misspelled_hooks(encoder_with(encode_sampel=3, Batch=Warning, ecnode_sample=property(str))))
    assert not list(misspelled_hooks(DefaultTaskEncoder))


def test_misspelled_hooks_ignores_similar_name_if_hook_is_defined() -> None:
    assert not list(misspelled_hooks(encoder_with("encode_sample", "encode_samples")))


def test_misspelled_hooks_ignores_method_called_by_encoder() -> None:
    class Helped(DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_samples(self, samples: list[Any]) -> list[Any]:
            return samples

        def batch(self, samples: list[Any]) -> Any:
            return super().batch([sample for sample in [samples] for sample in self.encode_samples(sample)])

    assert not list(misspelled_hooks(Helped))


def test_misspelled_hooks_ignores_object_with_any_attribute() -> None:
    class Anything:
        def __getattr__(self, name: str) -> Any:
            return Anything()

    assert not list(misspelled_hooks(encoder_with("encode_sample", own=Anything())))


def test_misspelled_hooks_checks_subclasses_mixins_wrappers_and_decorated_methods() -> None:
    user_encoder = encoder_with("encode_sample")

    class Mixin:
        @staticmethod
        def encode_bacth(batch: Any) -> Any:
            return batch

    class Both(Mixin, DefaultTaskEncoder[Any, Any, Any, Any]):
        @stateless
        def encode_sampel(self, sample: Any) -> Any:
            return sample

    assert list(misspelled_hooks(encoder_with("encode_sampel", base=user_encoder))) == [
        ("Mine", "encode_sampel", "encode_sample")
    ]
    assert list(misspelled_hooks(encoder_with("encode_sampel", base=AugmentTaskEncoder)))
    assert sorted(hook for _, _, hook in misspelled_hooks(Both)) == ["encode_batch", "encode_sample"]


def test_dataset_warns_once_about_misspelled_hook() -> None:
    kind = encoder_with("encode_sampel")

    with pytest.warns(UserWarning, match=r"WDS515: Mine.encode_sampel is not a hook.*mean encode_sample\?") as record:
        get_train_dataset("data", task_encoder=kind())
    assert [each.filename for each in record] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_val_dataset("data", task_encoder=kind())
