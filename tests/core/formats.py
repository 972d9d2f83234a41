"""A tiny driver of sources and targets, in the place of the engine: what a form holds, and samples written to one."""

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


def held(path: str | Path, options: Options | None = None, *, form: str = "") -> Samples:
    """All samples of a source, by key; what is told of them without reading is compared with what is read."""
    found: Samples = {}
    importer = importers.get_importer(form) if form else importers.best_importer(str(path))[0]
    with importer.open(str(path), options or {}) as source:
        assert isinstance(source, DetailedSource)
        known = list(source.list_samples())
        for place, entry in enumerate(source.entries()):
            parts = source.read(place)
            names = [part.name for part in parts]
            assert names == sorted(set(names))
            assert known[place][:3] == (place, entry.key, tuple((part.name, len(part.data)) for part in parts))
            assert entry.size_bytes == sum(len(part.data) for part in parts)
            assert entry.key not in found
            found[entry.key] = {part.name: bytes(part.data) for part in parts}
    with importer.open(str(path), options or {}) as source:  # as a worker has it: anew, and not from the start
        for place in sorted({len(found) - 1, len(found) // 2}, reverse=True) if found else ():
            assert [part.name for part in source.read(place)] == list(found[list(found)[place]])
    return found


def faults(path: str | Path, options: Options | None = None, *, form: str = "") -> dict[int, WdsctlError]:
    """What is wrong with single samples, by place; the others are read without an error."""
    wrong: dict[int, WdsctlError] = {}
    importer = importers.get_importer(form) if form else importers.best_importer(str(path))[0]
    with importer.open(str(path), options or {}) as source:
        for place, _ in enumerate(source.entries()):
            try:
                source.read(place)
            except WdsctlError as error:
                wrong[place] = error
    return wrong


def refused(path: str | Path, options: Options | None = None, *, form: str = "") -> WdsctlError:
    """Why a source cannot be opened or listed at all."""
    try:
        importer = importers.get_importer(form) if form else importers.best_importer(str(path))[0]
        with importer.open(str(path), options or {}) as source:
            for _ in source.entries():
                pass
    except WdsctlError as error:
        return error
    raise AssertionError("it was taken")


def described(path: str | Path, options: Options | None = None, *, form: str = "") -> SourceDescription:
    """What a source says becomes of it."""
    importer = importers.get_importer(form) if form else importers.best_importer(str(path))[0]
    with importer.open(str(path), options or {}) as source:
        assert isinstance(source, DescribedSource)
        return source.describe()


def reported(path: str | Path, options: Options | None = None, *, form: str = "") -> list[tuple[str, str, int]]:
    """The findings of a description: code, severity and count."""
    return [(each.code, each.severity, each.count) for each in described(path, options, form=form).findings]


def written(folder: Path, form: str, samples: Mapping[str, Mapping[str, bytes]], options: Options | None = None) -> str:
    """One unit of a target with these samples, in a folder of its own, finished as the engine does it."""
    folder.mkdir(parents=True, exist_ok=True)
    target = exporters.get_exporter(form)
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
