"""Runs importers and exporters without the convert engine: reads the samples of a source, and writes samples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from wdsctl.core import importers
from wdsctl.core.convert import exporters
from wdsctl.core.convert.exporters import WrittenUnit
from wdsctl.core.dataset.destination import move_unit_files
from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers.protocol import DescribedSource, DetailedSource, Options, Part, SourceDescription

Samples = dict[str, dict[str, bytes]]


def read_samples(path: str | Path, options: Options | None = None, *, form: str = "") -> Samples:
    """All samples of a source, by key; their listing is compared with what is read."""
    restored: Samples = {}
    importer = importers.get_importer(form) if form else importers.best_importer(str(path))[0]
    with importer.open(str(path), options or {}) as source:
        assert isinstance(source, DetailedSource)
        listings = list(source.list_samples())
        for sample_index, entry in enumerate(source.entries()):
            parts = source.read(sample_index)
            names = [part.name for part in parts]
            assert names == sorted(set(names))
            assert listings[sample_index][:3] == (
                sample_index,
                entry.key,
                tuple((part.name, len(part.data)) for part in parts),
            )
            assert entry.size_bytes == sum(len(part.data) for part in parts)
            assert entry.key not in restored
            restored[entry.key] = {part.name: bytes(part.data) for part in parts}
    with importer.open(str(path), options or {}) as source:  # like a worker: opened again, and not read from the start
        for sample_index in sorted({len(restored) - 1, len(restored) // 2}, reverse=True) if restored else ():
            assert [part.name for part in source.read(sample_index)] == list(restored[list(restored)[sample_index]])
    return restored


def read_errors(path: str | Path, options: Options | None = None, *, form: str = "") -> dict[int, WdsctlError]:
    """The errors of single samples, by index; the other samples are read without an error."""
    errors: dict[int, WdsctlError] = {}
    importer = importers.get_importer(form) if form else importers.best_importer(str(path))[0]
    with importer.open(str(path), options or {}) as source:
        for sample_index, _ in enumerate(source.entries()):
            try:
                source.read(sample_index)
            except WdsctlError as error:
                errors[sample_index] = error
    return errors


def open_error(path: str | Path, options: Options | None = None, *, form: str = "") -> WdsctlError:
    """The error of a source that cannot be opened or listed."""
    try:
        importer = importers.get_importer(form) if form else importers.best_importer(str(path))[0]
        with importer.open(str(path), options or {}) as source:
            for _ in source.entries():
                pass
    except WdsctlError as error:
        return error
    raise AssertionError("it was taken")


def describe_source(path: str | Path, options: Options | None = None, *, form: str = "") -> SourceDescription:
    """The description of a source."""
    importer = importers.get_importer(form) if form else importers.best_importer(str(path))[0]
    with importer.open(str(path), options or {}) as source:
        assert isinstance(source, DescribedSource)
        return source.describe()


def description_findings(
    path: str | Path, options: Options | None = None, *, form: str = ""
) -> list[tuple[str, str, int]]:
    """The findings of a description: code, severity and count."""
    return [(each.code, each.severity, each.count) for each in describe_source(path, options, form=form).findings]


def write_unit(
    folder: Path, form: str, samples: Mapping[str, Mapping[str, bytes]], options: Options | None = None
) -> str:
    """Writes one unit with these samples into a folder of its own, and finishes it like the engine."""
    folder.mkdir(parents=True, exist_ok=True)
    target = exporters.get_exporter(form)
    target.check(options or {})
    if isinstance(target, exporters.ColumnExporter):
        names = {name for parts in samples.values() for name in parts}
        presence = {name: all(name in parts for parts in samples.values()) for name in names}
        target.check_options(names, options or {})
        target = target.with_parts(presence, options or {})
    draft, path = folder / ".draft", folder / f"part-0{target.suffix}"
    unit = target.write(str(draft), ((key, _parts(parts)) for key, parts in samples.items()), options or {})
    assert unit.samples == len(samples)
    os.replace(draft, path)
    if not target.suffix:
        move_unit_files(str(path), str(folder))
    target.finish(str(folder), [WrittenUnit(path.name, unit.samples, unit.size_bytes, unit.facts)], options or {})
    return str(folder)


def _parts(parts: Mapping[str, bytes]) -> Iterator[Part]:
    for name in sorted(parts):
        yield Part(name, parts[name])
