"""Fields of samples, which hooks may make dicts or objects of any class; and what to call samples in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wdsctl.core.text import pluralize


def get_field(sample: Any, name: str) -> Any:
    return sample.get(name) if isinstance(sample, dict) else getattr(sample, name, None)


def set_field(sample: Any, name: str, value: Any) -> None:
    """Set a field that a sample has; do nothing if it has none."""
    if isinstance(sample, dict):
        if name in sample:
            sample[name] = value
    elif hasattr(sample, name):
        setattr(sample, name, value)


def get_source_number(sample: Any) -> int | None:
    """The number of a sample's source, if its restore key has it; of a pack, that of its first sample."""
    key = get_field(sample, "__restore_key__")
    while isinstance(key, tuple) and key:
        if isinstance(key[0], int):
            return key[0]
        key = key[2] if len(key) > 2 else None
    return None


def describe_samples(samples: Sequence[Any]) -> str:
    """The keys of some samples, if they have them; otherwise how many they are."""
    keys = [get_field(sample, "__key__") for sample in samples[:3]]
    if not any(keys):
        return f"{pluralize(len(samples), 'sample')} without __key__"
    shown = ", ".join(str(key or "?") for key in keys) + (f" and {len(samples) - 3} more" if len(samples) > 3 else "")
    return f"sample{'s' * (len(samples) > 1)} {shown}"


def describe_sample_location(sample: Any) -> str:
    """Dataset, shard and key. A hook may have changed the sample before it failed."""
    sources = get_field(sample, "__sources__") or ()
    parts = [f"dataset {each.dataset_path}, shard {each.shard_name}" for each in sources[:1]]
    return ", ".join([*parts, f"key {get_field(sample, '__key__')}"])
