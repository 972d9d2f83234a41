"""The samples that hooks receive: typed ones, crude ones for datasets without a type, and parts that are read lazily.

`types` and `base` define the classes (their fields as data: `core/samples/types.py`), `build` builds samples from
parts, `display` shows them in notebooks, `registry` and `trust` decide which user code may run. Every room from
`decoding` up may import it.
"""

from __future__ import annotations

from wdsctl.loader.samples.base import BASE_FIELDS, CrudeSample, Sample, base_values, edataclass
from wdsctl.loader.samples.build import SampleLocator, SourceInfo, lazy_source_info, make_builder
from wdsctl.loader.samples.types import (
    SAMPLE_CLASSES,
    admit_sample_type,
    find_sample_factory,
    find_sample_type,
    sample_type_fields,
)

__all__ = [
    "BASE_FIELDS",
    "SAMPLE_CLASSES",
    "CrudeSample",
    "Sample",
    "SampleLocator",
    "SourceInfo",
    "admit_sample_type",
    "base_values",
    "edataclass",
    "find_sample_factory",
    "find_sample_type",
    "lazy_source_info",
    "make_builder",
    "sample_type_fields",
]
