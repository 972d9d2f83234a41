"""DecodeFunctions: one function per part, one layout for all sources with equal parts."""

from __future__ import annotations

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.samples.types import CRUDE
from wdsctl.loader import SampleDecoder
from wdsctl.loader.reading.decode_functions import DecodeFunctions


def test_decode_functions_without_decoder_return_none() -> None:
    assert DecodeFunctions(None)("jpg", "any", "") is None


def test_decode_functions_return_none_for_undecoded_parts() -> None:
    assert DecodeFunctions(SampleDecoder())("bin", "any", "") is None


def test_decode_functions_are_shared_per_part_with_one_image_memory() -> None:
    functions = DecodeFunctions(SampleDecoder())

    assert functions("jpg", "any", "") is functions("jpg", "any", "")
    assert len(functions.memories) == 1


def test_layout_is_shared_by_sources_with_equal_parts_and_name() -> None:
    functions, config = DecodeFunctions(None), DatasetConfig(sample_type=CRUDE)

    first = functions.layout(["jpg", "txt"], config, "here")

    assert functions.layout(["jpg", "txt"], config, "there") is first
    assert functions.layout(["jpg"], config, "here") is not first
