"""One function for each part, one layout for all sources that are alike."""

from __future__ import annotations

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.samples.types import CRUDE
from wdsctl.loader import SampleDecoder
from wdsctl.loader.reading.decode_functions import DecodeFunctions


def test_without_a_decoder_no_part_has_a_function() -> None:
    assert DecodeFunctions(None)("jpg", "any", "") is None


def test_bytes_that_stay_bytes_have_no_function() -> None:
    assert DecodeFunctions(SampleDecoder())("bin", "any", "") is None


def test_a_part_has_one_function_and_images_one_memory() -> None:
    functions = DecodeFunctions(SampleDecoder())

    assert functions("jpg", "any", "") is functions("jpg", "any", "")
    assert len(functions.memories) == 1


def test_sources_that_are_alike_share_a_layout() -> None:
    functions, config = DecodeFunctions(None), DatasetConfig(sample_type=CRUDE)

    first = functions.layout(["jpg", "txt"], config, "here")

    assert functions.layout(["jpg", "txt"], config, "there") is first
    assert functions.layout(["jpg"], config, "here") is not first
