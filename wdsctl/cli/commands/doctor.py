"""`wdsctl doctor`: versions and facts of this installation, to paste into a bug report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.inspect.doctor import DatasetFacts, DoctorReport, FileSystemFacts


EPILOG = """
\b
Examples:
  wdsctl doctor                  versions, packages, processors, memory
  wdsctl doctor shards/          also the file system of a dataset
  wdsctl doctor shards/ --json   as JSON

\b
The report has no paths, no names of users, hosts or datasets, and no values
of variables. It reads no shard.
"""


def command(
    root: Annotated[
        str | None,
        typer.Argument(metavar="ROOT", help="A dataset; describes its file system and catalog.", show_default=False),
    ] = None,
    *,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Print versions and system facts for a bug report."""
    from wdsctl.core.errors import UsageError
    from wdsctl.core.inspect.doctor import doctor

    if catalog is not None and root is None:
        raise UsageError("--catalog without a dataset", hint="pass the dataset: wdsctl doctor ROOT --catalog DIR")
    common.output.answer("doctor", doctor(root, catalog=catalog), render_doctor)
    return 0


def render_doctor(report: DoctorReport) -> Iterator[RenderableType]:
    from wdsctl.cli.formatting import format_count, format_size
    from wdsctl.cli.tables import labelled_lines, make_table

    system = report.system
    limit = "unlimited" if system.open_files < 0 else format_count(system.open_files)
    yield labelled_lines(
        [
            ("wdsctl", report.wdsctl),
            ("Python", system.python),
            ("system", ", ".join(filter(None, (system.system, system.distribution, system.machine, system.libc)))),
            ("SQLite", system.sqlite),
            ("file names", system.file_name_encoding),
            ("cores", f"{format_count(system.cores)}, {format_count(system.usable_cores)} usable"),
            ("memory", format_size(system.memory_bytes)),
            (
                "shared memory",
                f"{format_size(system.shared_memory_bytes)}, {format_size(system.free_shared_memory_bytes)} free"
                if system.shared_memory_bytes
                else "none",
            ),
            ("open files", f"at most {limit}" if system.open_files >= 0 else limit),
            ("processes", f"{', '.join(system.start_methods)} (default: {system.start_methods[0]})"),
        ]
    )
    yield ""
    yield make_table(
        ("package", "version", "install with"),
        [(each.name, each.version or "absent", each.install) for each in report.packages],
    )
    if report.dataset is not None:
        yield ""
        yield labelled_lines(_dataset_lines("dataset" if report.media is None else "primary", report.dataset))
    if report.media is not None:
        yield ""
        yield labelled_lines(_dataset_lines("media", report.media))


def _dataset_lines(label: str, dataset: DatasetFacts) -> Iterator[tuple[str, RenderableType]]:
    from wdsctl.cli.formatting import format_count

    yield label, dataset.form
    if dataset.file_system is not None:
        yield "file system", _describe_file_system(dataset.file_system)
    if dataset.catalog_file_system is not None:
        place = "elsewhere"
        if dataset.catalog_place == "dataset":
            place = "in the dataset" if dataset.file_system else "a copy on this machine"
        yield "catalog", f"{place}, {_describe_file_system(dataset.catalog_file_system)}"
    if dataset.catalog_error:
        yield "contents", f"unknown: {dataset.catalog_error} (wdsctl explain {dataset.catalog_error})"
    else:
        counts = f"{format_count(dataset.shards or 0, 'shard')}, {format_count(dataset.samples or 0, 'sample')}"
        yield "contents", f"{counts}, generation {dataset.generation}, schema version {dataset.schema_version}"


def _describe_file_system(facts: FileSystemFacts) -> str:
    from wdsctl.cli.formatting import format_count, format_size

    files = "" if facts.free_files < 0 else f", room for {format_count(facts.free_files, 'file')}"
    return (
        f"{facts.type or 'unknown type'}{', read-only' if facts.is_read_only else ''}, "
        f"{format_size(facts.free_bytes)} of {format_size(facts.size_bytes)} free{files}, "
        f"blocks of {format_size(facts.block_bytes)}"
    )
