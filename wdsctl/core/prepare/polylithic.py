"""Detect the sample type of a polylithic dataset, whose samples have parts in the primary and in the media."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal

import numpy as np

from wdsctl.core.dataset.config import DatasetConfig, load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.polylithic import MONOLITHIC_CONFIG_FILE, read_marker
from wdsctl.core.errors import InputError
from wdsctl.core.importers.polylithic import IMPORTER
from wdsctl.core.importers.protocol import FilePart
from wdsctl.core.index.write_dataset_yaml import (
    EVIDENCE_HEAD_BYTES,
    EVIDENCE_SAMPLES,
    MAX_WHOLE_BYTES,
    SampleTypeRequest,
    UnsureTypeError,
    is_doubtful,
    resolve_optional,
    resolve_sample_type,
)
from wdsctl.core.safe_open import name_source
from wdsctl.core.samples.detect import Detection, infer_sample_type
from wdsctl.core.samples.evidence import Evidence, PartEvidence
from wdsctl.core.samples.types import DrawnOn, has_geometry


def resolve_polylithic_config(
    folder: str, samples: int, request: SampleTypeRequest, *, accept_type: bool, drawn_on: DrawnOn | Literal[""] = ""
) -> tuple[Detection | None, DatasetConfig, bool]:
    """(detection, config of the complete samples, whether it is new), from the user's options or by detection.

    `samples`: of the primary. Cost: reads at most 64 samples. Raises UsageError WDS221 if the detection is not sure.
    """
    path = os.path.join(folder, MONOLITHIC_CONFIG_FILE)
    before = load_config(path) if os.path.exists(path) else None
    if before is not None and not request:
        config = replace(before, drawn_on=drawn_on or before.drawn_on)
        return None, config, config != before
    evidence = _collect_evidence(folder, samples)
    detection = infer_sample_type(evidence, is_jsonl=False)
    if is_doubtful(detection, request) and not accept_type:
        raise UnsureTypeError(locate(folder), detection, MONOLITHIC_CONFIG_FILE)
    sample_type, field_map = resolve_sample_type(detection, request, [part.name for part in evidence.parts])
    base = before or DatasetConfig()
    optional = resolve_optional(base, detection, sample_type, field_map)
    if not drawn_on:
        drawn_on = "shown" if before is None and has_geometry(field_map) else base.drawn_on
    config = DatasetConfig(sample_type, field_map, base.subflavors, optional=optional, drawn_on=drawn_on)
    return detection, config, config != before


def _collect_evidence(folder: str, samples: int) -> Evidence:
    """The part counts that `convert` recorded, and the contents of some samples. Raises InputError for a bad record."""
    counts = read_marker(folder).get("part_samples")
    if not isinstance(counts, dict) or not all(isinstance(count, int) for count in counts.values()):
        raise InputError(
            "polylithic.json has no sample counts of the parts",
            where=folder,
            hint="convert the original dataset again with this version of wdsctl",
        )
    heads: dict[str, list[tuple[bytes, int]]] = {name: [] for name in counts}
    name_source(folder)
    with IMPORTER.open(folder, {}) as source:
        for index in sorted(set(np.linspace(0, samples - 1, EVIDENCE_SAMPLES).astype(int).tolist())):
            for part in source.read_selected(index, heads.__contains__):
                if isinstance(part, FilePart):
                    size, head = part.size, next(part.chunks(EVIDENCE_HEAD_BYTES), b"")
                else:
                    size, head = len(part.data), part.data[:EVIDENCE_HEAD_BYTES]
                is_json = size <= MAX_WHOLE_BYTES and head.lstrip()[:1] in (b"{", b"[")
                heads[part.name].append((part.data if is_json else head, size))
    parts = (
        PartEvidence(name, count, tuple(head for head, _ in heads[name]), tuple(size for _, size in heads[name]))
        for name, count in counts.items()
    )
    return Evidence(max(samples, *counts.values()), tuple(parts))
