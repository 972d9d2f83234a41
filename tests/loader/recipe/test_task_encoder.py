from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
import torch

from wdsctl.core.errors import UsageError
from wdsctl.loader.batching.batch import Batch
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.memory import BatchMemory
from wdsctl.loader.recipe.hooks import stateless
from wdsctl.loader.recipe.task_encoder import (
    HOOKS,
    AugmentTaskEncoder,
    DefaultTaskEncoder,
    TaskEncoder,
    batch_function,
    is_overridden,
    task_encoder_config,
)
from wdsctl.loader.samples import edataclass
from wdsctl.loader.samples.types import CaptioningSample

AnyEncoder = TaskEncoder[Any, Any, Any, Any]


class Pair(NamedTuple):
    image: Any
    caption: Any


@edataclass
class Captions(Batch):
    image: torch.Tensor
    caption: list[str]


class Own(DefaultTaskEncoder[CaptioningSample, CaptioningSample, Any, Any]):
    decoder = SampleDecoder("torchrgb8")

    def __init__(self) -> None:
        """Does not call the constructor of its base, as is common."""

    @stateless
    def encode_sample(self, sample: CaptioningSample) -> CaptioningSample:
        return CaptioningSample.derive_from(sample, image=sample.image, caption=sample.caption.upper())


def captions(n: int = 2) -> list[CaptioningSample]:
    return [CaptioningSample(__key__=f"{i}", image=torch.ones(1), caption="a cat") for i in range(n)]


def make_adjacent_samples(memory: BatchMemory) -> list[CaptioningSample]:
    for _ in range(2):
        memory.begin(2)
        images = [memory.take((4, 6, 3))[1] for _ in range(2)]
    return [CaptioningSample(__key__="1", image=image, caption="a cat") for image in images]


@pytest.mark.parametrize("encoder", [TaskEncoder(), DefaultTaskEncoder()])
def test_plain_encoder_overrides_no_hook(encoder: AnyEncoder) -> None:
    assert [hook for hook in HOOKS if is_overridden(encoder, hook)] == []


def test_is_overridden_detects_hook_of_subclass() -> None:
    assert [hook for hook in HOOKS if is_overridden(Own(), hook)] == ["encode_sample"]


def test_is_overridden_detects_hook_of_instance() -> None:
    encoder: AnyEncoder = DefaultTaskEncoder()
    encoder.encode_batch = lambda batch: batch  # type: ignore[method-assign]

    assert [hook for hook in HOOKS if is_overridden(encoder, hook)] == ["encode_batch"]


@pytest.mark.parametrize(
    ("options", "hook"),
    [
        ({"encoded_sample_type": Pair}, "encode_sample"),
        ({"raw_batch_type": Captions}, "batch"),
        ({"batch_type": dict}, "encode_batch"),
    ],
)
def test_is_overridden_detects_type_conversion(options: dict[str, Any], hook: str) -> None:
    assert [name for name in HOOKS if is_overridden(DefaultTaskEncoder(**options), name)] == [hook]


def test_default_encoder_converts_at_each_hook() -> None:
    encoder: DefaultTaskEncoder[Any, Any, Any, Any] = DefaultTaskEncoder(
        encoded_sample_type=Pair, raw_batch_type=dict, batch_type=Pair
    )

    encoded = [encoder.encode_sample(sample) for sample in captions()]
    raw = encoder.batch(encoded)

    assert encoded[0] == Pair(captions()[0].image, "a cat")
    assert (type(raw), raw["caption"]) == (dict, ["a cat", "a cat"])
    assert isinstance(encoder.encode_batch(raw), Pair)


@pytest.mark.parametrize("encoder", [TaskEncoder(), DefaultTaskEncoder(), DefaultTaskEncoder(raw_batch_type=Captions)])
def test_default_batch_shares_memory_of_decoded_images(encoder: AnyEncoder) -> None:
    memory = BatchMemory(torch.uint8)
    samples = make_adjacent_samples(memory)

    batch = batch_function(encoder, [memory])(samples)

    assert batch["image"].data_ptr() == samples[0].image.data_ptr()
    assert torch.equal(batch["image"], encoder.batch(samples)["image"])
    assert type(batch) is type(encoder.batch(samples))


def test_batch_function_calls_overridden_batch() -> None:
    class Counting(DefaultTaskEncoder[Any, Any, Any, Any]):
        def batch(self, samples: list[Any]) -> Any:
            return len(samples)

    assert batch_function(Counting())(captions(3)) == 3


def test_task_encoder_config_lists_overridden_hooks_as_json() -> None:
    config = task_encoder_config(Own())

    assert config == json.loads(json.dumps(config))
    assert list(config["hooks"]) == ["encode_sample"]
    assert config["hooks"]["encode_sample"].endswith("test_task_encoder.Own.encode_sample")
    assert config["decoder"]["image_decode"] == "torchrgb8"
    assert task_encoder_config(DefaultTaskEncoder(batch_type=dict))["conversions"] == {"encode_batch": "builtins.dict"}


def test_task_encoder_config_without_decoder_is_none() -> None:
    encoder: AnyEncoder = TaskEncoder()
    encoder.decoder = None

    assert task_encoder_config(encoder)["decoder"] is None


class Wrapper(AugmentTaskEncoder):
    """Returns the caption of samples that another encoder encodes."""

    def encode_sample(self, sample: Any) -> Any:
        return self.inner.encode_sample(sample).caption


def test_augment_encoder_delegates_to_inner_encoder() -> None:
    inner: AnyEncoder = Own()
    inner.cookers = ("a cooker",)  # type: ignore[assignment]
    wrapper = Wrapper(inner)

    assert (wrapper.decoder, wrapper.cookers) == (inner.decoder, inner.cookers)
    assert wrapper.encode_sample(captions(1)[0]) == "A CAT"
    assert AugmentTaskEncoder(inner).encode_sample(captions(1)[0]).caption == "A CAT"


def test_augment_encoder_super_calls_inner_encoder() -> None:
    class Louder(AugmentTaskEncoder):
        def encode_sample(self, sample: Any) -> Any:
            return f"{super().encode_sample(sample).caption}!"

        def batch(self, samples: list[Any]) -> Any:
            return [super().batch(samples)]

    wrapper = Louder(Own())
    assert wrapper.encode_sample(captions(1)[0]) == "A CAT!"
    assert (
        AugmentTaskEncoder.encode_batch(Louder(DefaultTaskEncoder(batch_type=Pair)), captions(1)[0]).caption == "a cat"
    )


def test_augment_encoder_overrides_only_hooks_of_inner_encoder() -> None:
    for inner in (TaskEncoder[Any, Any, Any, Any](), DefaultTaskEncoder[Any, Any, Any, Any]()):
        assert [hook for hook in HOOKS if is_overridden(AugmentTaskEncoder(inner), hook)] == []
    assert [hook for hook in HOOKS if is_overridden(AugmentTaskEncoder(Own()), hook)] == ["encode_sample"]


def test_augment_encoder_keeps_conversions_of_inner_encoder() -> None:
    inner: AnyEncoder = DefaultTaskEncoder(raw_batch_type=Captions)
    wrapper = AugmentTaskEncoder(inner)

    assert [hook for hook in HOOKS if is_overridden(wrapper, hook)] == ["batch"]
    assert isinstance(batch_function(wrapper)(captions()), Captions)
    assert task_encoder_config(wrapper)["conversions"] == task_encoder_config(inner)["conversions"]


def test_augment_encoders_can_be_nested() -> None:
    class Louder(AugmentTaskEncoder):
        def encode_sample(self, sample: Any) -> Any:
            return f"{self.inner.encode_sample(sample)}!"

    assert Louder(Louder(Wrapper(Own()))).encode_sample(captions(1)[0]) == "A CAT!!"


def test_augment_encoder_can_override_decoder() -> None:
    class Bytes(AugmentTaskEncoder):
        decoder = None

    assert Bytes(Own()).decoder is None
    assert task_encoder_config(Bytes(Own()))["decoder"] is None


@pytest.mark.parametrize("hook", ["select_samples_to_pack", "pack_selected_samples", "batch_group_criterion"])
def test_hook_without_default_raises_usage_error(hook: str) -> None:
    with pytest.raises(UsageError, match=f"{hook} has no default implementation, but was called"):
        getattr(DefaultTaskEncoder(), hook)([])
