"""`--overwrite`: write the new dataset beside the destination, then put it in its place.

Until the new dataset is complete, the old one stays. A killed run is continued by the same command.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace

from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.convert.exporters import get_exporter
from wdsctl.core.convert.finish import SIDE_FILES
from wdsctl.core.convert.report import LEFT_OUT_FILE, load_finished, write_finished
from wdsctl.core.dataset.destination import remove_path
from wdsctl.core.dataset.location import CONVERSION_FOLDER, FINISHED_FILE, META_FOLDER, locate
from wdsctl.core.dataset.lock import lock_dataset
from wdsctl.core.directories import open_folder
from wdsctl.core.errors import UsageError, translate_os_errors
from wdsctl.core.file_limits import read_whole
from wdsctl.core.files import rename_in, write_text
from wdsctl.core.progress import Progress
from wdsctl.core.safe_open import open_below
from wdsctl.core.shards.in_place.kinds import INDEX_FILE

DIFFERENT_CONVERSION = "WDS345"


def draft_path(dest: str) -> str:
    """Where the new dataset is written."""
    return f"{dest.rstrip('/')}.new"


def _former_path(dest: str) -> str:
    """Where the old dataset is while the new one takes its place. A name such as DEST.old may be a copy of the user."""
    above, name = os.path.split(os.path.abspath(dest))
    return os.path.join(above, f".{name}.wdsctl-replaced")


def _rename(path: str, other: str) -> None:
    """Rename a folder within the folder that holds both."""
    above, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path), open_folder(above) as folder:
        rename_in(folder, name, os.path.basename(other))


def finish_killed_replacement(dest: str) -> None:
    """After a kill between the two renames of `replace_destination`, bring the old destination back; after a kill
    behind them, remove it.
    """
    former = _former_path(dest)
    if os.path.isdir(former):
        if os.path.lexists(dest):
            remove_path(former)
        else:
            _rename(former, dest)


def check_replaceable(dest: str) -> bool:
    """Whether the destination holds a finished conversion. Raise UsageError if it also has files of others."""
    if not os.path.isdir(dest):
        return False
    location = locate(dest)
    if not location.has_catalog_inside:
        raise UsageError(
            "--overwrite cannot replace a dataset whose catalog is in another folder",
            where=location.catalog_path,
            hint="choose another DEST, or unset WDSCTL_CATALOG",
        )
    finished = load_finished(os.path.join(location.meta, CONVERSION_FOLDER))
    if finished is None:
        return False
    form = finished["report"]["form"]
    if not get_exporter(form).suffix:
        raise UsageError(
            f"--overwrite cannot replace files of the format {form}: the conversion has not recorded their names",
            where=dest,
            hint="choose another DEST, or remove the files of this one",
        )
    foreign = next(_foreign_files(dest, finished["files"], form), None)
    if foreign is not None:
        raise UsageError(
            "--overwrite would remove files of the destination that no conversion wrote",
            where=foreign,
            hint="move these files away, or choose another DEST",
        )
    return True


def _foreign_files(dest: str, written: Collection[str], form: str) -> Iterator[str]:
    """The paths of files that the conversion did not write, and of links to folders. `written`: paths below `dest`."""
    side_files = {*SIDE_FILES, *([INDEX_FILE] if form in ("mds", "litdata") else [])}
    for folder, folders, names in os.walk(dest):
        folders[:] = sorted(name for name in folders if name != META_FOLDER)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*names, *links]):
            path = os.path.join(folder, name)
            if name not in side_files and os.path.relpath(path, dest) not in written:
                yield path


def replace_destination(dest: str, report: ConvertReport, progress: Progress) -> ConvertReport:
    """Put the finished draft in the place of the destination, and remove that. Returns the report of the new place.

    Each dataset.yaml, which the user may have edited, is kept as `dataset.yaml.before` beside the new one. Trainings
    that have files of the old destination open can go on reading them.
    """
    draft, former = draft_path(dest), _former_path(dest)

    def moved(path: str) -> str:
        return dest.rstrip("/") + path.removeprefix(draft)

    work = os.path.join(locate(draft).meta, CONVERSION_FOLDER)
    finished = load_finished(work)
    if finished is None:
        raise UsageError(
            f"the finished conversion lacks its file {FINISHED_FILE}", where=work, hint="run the same command again"
        )
    for dataset in finished["report"]["datasets"]:
        dataset["path"] = moved(dataset["path"])
    write_finished(work, finished)
    for authored, kept in _authored_files(dest, draft):
        with translate_os_errors(authored, "read"), open_below(authored, dest) as file:
            text = read_whole(file, authored).decode()
        write_text(kept, text)
        progress.note(f"moved the former {os.path.relpath(authored, dest)} to {moved(kept)}")
    with lock_dataset(locate(dest, writing=True), note=progress.note):
        pass  # nobody is writing to it
    remove_path(former)
    _rename(dest, former)
    _rename(draft, dest)
    remove_path(former)
    datasets = tuple(replace(each, path=moved(each.path)) for each in report.datasets)
    left_out = os.path.join(locate(dest).meta, CONVERSION_FOLDER, LEFT_OUT_FILE) if report.left_out_list else ""
    return replace(report, dest=dest, datasets=datasets, left_out_list=left_out)


def _authored_files(dest: str, draft: str) -> Iterator[tuple[str, str]]:
    """Each dataset.yaml of the destination, and where to keep it in the draft.

    This is beside the dataset.yaml of the same dataset. If the draft does not have this dataset, it is the draft's
    `.wdsctl`, under a name that begins with the dataset's folder.
    """
    for folder, folders, _ in os.walk(dest):
        authored = locate(folder).config_path if META_FOLDER in folders else ""
        folders[:] = sorted(name for name in folders if name != META_FOLDER)
        if not authored or not os.path.exists(authored):
            continue
        below = os.path.normpath(os.path.relpath(folder, dest))
        name = "dataset.yaml.before"
        if not os.path.isdir(os.path.join(draft, below, META_FOLDER)):
            name, below = f"{below.replace('/', '-')}.{name}", "."
        yield authored, os.path.normpath(os.path.join(draft, below, META_FOLDER, name))
