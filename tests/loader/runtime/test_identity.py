"""Names in plans and states survive a move of the file that defines the named object."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import wdsctl.loader
from tests.loader.datasets import a_dataset
from wdsctl.core.hashing import json_digest
from wdsctl.loader import (
    AugmentTaskEncoder,
    Buckets,
    DefaultTaskEncoder,
    Packing,
    SampleDecoder,
    TextSample,
    batch_list,
    get_loader,
    get_train_dataset,
)
from wdsctl.loader.runtime.identity import qualified_name

# Functions of core that the loader re-exports; no state contains them.
CORE_FUNCTIONS = {
    "Blender",
    "allow_path",
    "convert_boxes",
    "merge_states",
    "normalize_conversation",
    "normalize_preference",
}


class Own(DefaultTaskEncoder[Any, Any, Any, Any]):
    def __call__(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("name", sorted({*wdsctl.loader.__all__} - CORE_FUNCTIONS))
def test_qualified_name_of_wdsctl_code_uses_its_package(name: str) -> None:
    assert qualified_name(getattr(wdsctl.loader, name)) == f"wdsctl.loader.{name}"


def test_qualified_name_of_user_code_uses_its_module() -> None:
    assert qualified_name(Own) == f"{__name__}.Own"
    assert qualified_name(Own()) == f"{__name__}.Own"
    assert qualified_name(partial(partial(len))) == "builtins.len"
    assert qualified_name(Own, ":") == f"{__name__}:Own"
    assert qualified_name(TextSample, ":") == "wdsctl.loader:TextSample"


def test_recipe_of_wdsctl_classes_has_stable_names_and_digest(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 12, parts=lambda i: {"txt": b"%d" % i})
    encoder: Any = DefaultTaskEncoder(encoded_sample_type=TextSample)
    encoder.decoder = SampleDecoder(decoders={"bin": batch_list}, decode_threads=1)
    options: dict[str, Any] = {"batch_size": 2, "buckets": Buckets(of=batch_list, edges=(4,))}
    length: Any = partial(batch_list)

    with get_loader(get_train_dataset(path, task_encoder=encoder, **options)) as loader:
        recipe = loader.config()["recipe"]

    assert recipe["encoder"]["type"] == "wdsctl.loader.DefaultTaskEncoder"
    assert recipe["encoder"]["hooks"] == {"encode_sample": "wdsctl.loader.DefaultTaskEncoder.encode_sample"}
    assert recipe["encoder"]["conversions"] == {"encode_sample": "wdsctl.loader.TextSample"}
    assert recipe["encoder"]["decoder"]["decoders"] == {"bin": "wdsctl.loader.batch_list"}
    assert recipe["buckets"]["of"] == "wdsctl.loader.batch_list"
    assert Packing(length=length, capacity=8).config()["lengths"] == {"length": "wdsctl.loader.batch_list"}
    assert json_digest(recipe) == "de0598e5fe10a1e47bbec3cd4dd94842"


def test_recipe_names_augment_encoder_by_package(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 12, parts=lambda i: {"txt": b"%d" % i})
    encoder = AugmentTaskEncoder(DefaultTaskEncoder(encoded_sample_type=TextSample))

    with get_loader(get_train_dataset(path, task_encoder=encoder, batch_size=2)) as loader:
        assert loader.config()["recipe"]["encoder"]["type"] == "wdsctl.loader.AugmentTaskEncoder"
