from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
import torch

from wdsctl.core.errors import UsageError
from wdsctl.loader.batching.batch import Batch
from wdsctl.loader.decoding import BatchMemory, SampleDecoder
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
        """Forgets the constructor of its base, as much code does."""

    @stateless
    def encode_sample(self, sample: CaptioningSample) -> CaptioningSample:
        return CaptioningSample.derive_from(sample, image=sample.image, caption=sample.caption.upper())


def captions(n: int = 2) -> list[CaptioningSample]:
    return [CaptioningSample(__key__=f"{i}", image=torch.ones(1), caption="a cat") for i in range(n)]


def side_by_side(memory: BatchMemory) -> list[CaptioningSample]:
    for _ in range(2):
        memory.begin(2)
        images = [memory.take((4, 6, 3))[1] for _ in range(2)]
    return [CaptioningSample(__key__="1", image=image, caption="a cat") for image in images]


@pytest.mark.parametrize("encoder", [TaskEncoder(), DefaultTaskEncoder()])
def test_a_plain_encoder_has_no_hook_that_need_be_called(encoder: AnyEncoder) -> None:
    assert [hook for hook in HOOKS if is_overridden(encoder, hook)] == []


def test_a_hook_that_is_overridden_is_known() -> None:
    assert [hook for hook in HOOKS if is_overridden(Own(), hook)] == ["encode_sample"]


def test_a_hook_on_the_instance_is_known_too() -> None:
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
def test_a_conversion_counts_as_a_hook(options: dict[str, Any], hook: str) -> None:
    assert [name for name in HOOKS if is_overridden(DefaultTaskEncoder(**options), name)] == [hook]


def test_the_hooks_convert_one_after_the_other() -> None:
    encoder: DefaultTaskEncoder[Any, Any, Any, Any] = DefaultTaskEncoder(
        encoded_sample_type=Pair, raw_batch_type=dict, batch_type=Pair
    )

    encoded = [encoder.encode_sample(sample) for sample in captions()]
    raw = encoder.batch(encoded)

    assert encoded[0] == Pair(captions()[0].image, "a cat")
    assert (type(raw), raw["caption"]) == (dict, ["a cat", "a cat"])
    assert isinstance(encoder.encode_batch(raw), Pair)


@pytest.mark.parametrize("encoder", [TaskEncoder(), DefaultTaskEncoder(), DefaultTaskEncoder(raw_batch_type=Captions)])
def test_a_default_batch_shares_the_memory_that_its_images_were_decoded_into(encoder: AnyEncoder) -> None:
    memory = BatchMemory(torch.uint8)
    samples = side_by_side(memory)

    batch = batch_function(encoder, [memory])(samples)

    assert batch["image"].data_ptr() == samples[0].image.data_ptr()
    assert torch.equal(batch["image"], encoder.batch(samples)["image"])
    assert type(batch) is type(encoder.batch(samples))


def test_a_batch_of_ones_own_is_called_as_it_is() -> None:
    class Counting(DefaultTaskEncoder[Any, Any, Any, Any]):
        def batch(self, samples: list[Any]) -> Any:
            return len(samples)

    assert batch_function(Counting())(captions(3)) == 3


def test_the_config_names_what_is_overridden_and_is_json() -> None:
    told = task_encoder_config(Own())

    assert told == json.loads(json.dumps(told))
    assert list(told["hooks"]) == ["encode_sample"]
    assert told["hooks"]["encode_sample"].endswith("test_task_encoder.Own.encode_sample")
    assert told["decoder"]["image_decode"] == "torchrgb8"
    assert task_encoder_config(DefaultTaskEncoder(batch_type=dict))["conversions"] == {"encode_batch": "builtins.dict"}


def test_without_a_decoder_the_config_says_so() -> None:
    encoder: AnyEncoder = TaskEncoder()
    encoder.decoder = None

    assert task_encoder_config(encoder)["decoder"] is None


class Around(AugmentTaskEncoder):
    """Something after the samples of another encoder."""

    def encode_sample(self, sample: Any) -> Any:
        return self.inner.encode_sample(sample).caption


def test_an_encoder_around_another_does_what_is_not_overridden_as_the_inner_one() -> None:
    inner: AnyEncoder = Own()
    inner.cookers = ("a cooker",)  # type: ignore[assignment]
    around = Around(inner)

    assert (around.decoder, around.cookers) == (inner.decoder, inner.cookers)
    assert around.encode_sample(captions(1)[0]) == "A CAT"
    assert AugmentTaskEncoder(inner).encode_sample(captions(1)[0]).caption == "A CAT"


def test_super_in_an_encoder_around_another_is_the_inner_one() -> None:
    class Louder(AugmentTaskEncoder):
        def encode_sample(self, sample: Any) -> Any:
            return f"{super().encode_sample(sample).caption}!"

        def batch(self, samples: list[Any]) -> Any:
            return [super().batch(samples)]

    around = Louder(Own())
    assert around.encode_sample(captions(1)[0]) == "A CAT!"
    assert (
        AugmentTaskEncoder.encode_batch(Louder(DefaultTaskEncoder(batch_type=Pair)), captions(1)[0]).caption == "a cat"
    )


def test_an_encoder_around_another_costs_nothing_where_neither_does_anything() -> None:
    for inner in (TaskEncoder[Any, Any, Any, Any](), DefaultTaskEncoder[Any, Any, Any, Any]()):
        assert [hook for hook in HOOKS if is_overridden(AugmentTaskEncoder(inner), hook)] == []
    assert [hook for hook in HOOKS if is_overridden(AugmentTaskEncoder(Own()), hook)] == ["encode_sample"]


def test_a_conversion_of_the_inner_encoder_stays_one() -> None:
    inner: AnyEncoder = DefaultTaskEncoder(raw_batch_type=Captions)
    around = AugmentTaskEncoder(inner)

    assert [hook for hook in HOOKS if is_overridden(around, hook)] == ["batch"]
    assert isinstance(batch_function(around)(captions()), Captions)
    assert task_encoder_config(around)["conversions"] == task_encoder_config(inner)["conversions"]


def test_encoders_may_lie_around_one_another() -> None:
    class Louder(AugmentTaskEncoder):
        def encode_sample(self, sample: Any) -> Any:
            return f"{self.inner.encode_sample(sample)}!"

    assert Louder(Louder(Around(Own()))).encode_sample(captions(1)[0]) == "A CAT!!"


def test_a_decoder_of_its_own_is_its_own() -> None:
    class Bytes(AugmentTaskEncoder):
        decoder = None

    assert Bytes(Own()).decoder is None
    assert task_encoder_config(Bytes(Own()))["decoder"] is None


@pytest.mark.parametrize("hook", ["select_samples_to_pack", "pack_selected_samples", "batch_group_criterion"])
def test_a_hook_without_a_default_says_so_where_it_is_called_as_it_is(hook: str) -> None:
    with pytest.raises(UsageError, match=f"{hook} has no default implementation, but was called"):
        getattr(DefaultTaskEncoder(), hook)([])
