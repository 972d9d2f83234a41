"""`--overwrite`: write the new dataset beside the destination, then put it in its place.

Until the new dataset is complete, the old one stays. A killed run is continued by the same command.
"""

from __future__ import annotations

import os
from dataclasses import replace

from wdsctl.core.convert.finish import SIDE_FILES
from wdsctl.core.convert.report import load_finished, write_finished
from wdsctl.core.convert.request import ConvertReport
from wdsctl.core.dataset.destination import remove_path
from wdsctl.core.dataset.location import CONVERSION_FOLDER, FINISHED_FILE, locate
from wdsctl.core.dataset.lock import lock_dataset
from wdsctl.core.directories import open_folder
from wdsctl.core.errors import UsageError, translate_os_errors
from wdsctl.core.files import rename_in, write_text
from wdsctl.core.progress import Progress

DIFFERENT_CONVERSION = "WDS345"


def draft_path(dest: str) -> str:
    """Where the new dataset is written."""
    return f"{dest.rstrip('/')}.new"


def _former_path(dest: str) -> str:
    return f"{dest.rstrip('/')}.old"


def _rename(path: str, other: str) -> None:
    """Rename a folder within the folder that holds both."""
    above, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path), open_folder(above) as folder:
        rename_in(folder, name, os.path.basename(other))


def check_replaceable(dest: str) -> bool:
    """Whether the destination holds a finished conversion. Raise UsageError if it also has files of others.

    After a kill between the two renames of `replace_destination`, brings the old destination back first.
    """
    former = _former_path(dest)
    if not os.path.lexists(dest) and os.path.isdir(former):
        _rename(former, dest)
    if not os.path.isdir(dest):
        return False
    location = locate(dest)
    if not location.has_catalog_inside:
        raise UsageError(
            "--overwrite cannot replace a dataset whose catalog is in another folder",
            where=location.catalog,
            hint="choose another DEST, or unset WDSCTL_CATALOG",
        )
    finished = load_finished(os.path.join(location.meta, CONVERSION_FOLDER))
    if finished is None:
        return False
    known = {name.split("/")[0] for name in finished.get("files") or ()}
    known |= {*SIDE_FILES, os.path.basename(location.meta)}
    strange = sorted(set(os.listdir(dest)) - known)
    if strange:
        raise UsageError(
            "--overwrite would remove files of the destination that no conversion wrote",
            where=os.path.join(dest, strange[0]),
            hint="move these files away, or choose another DEST",
        )
    return True


def replace_destination(dest: str, report: ConvertReport, progress: Progress) -> ConvertReport:
    """Put the finished draft in the place of the destination, and remove that. Returns the report of the new place.

    A dataset.yaml, which the user may have edited, is kept as `dataset.yaml.before` beside the new one. Trainings that
    have files of the old destination open can go on reading them.
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
    authored = locate(dest).dataset_yaml
    if os.path.exists(authored):
        with translate_os_errors(authored, "read"), open(authored, encoding="utf-8") as file:
            text = file.read()
        write_text(f"{locate(draft).dataset_yaml}.before", text)
        progress.note(f"moved the former dataset.yaml to {authored}.before")
    with lock_dataset(locate(dest, writing=True), note=progress.note):
        pass  # nobody is writing to it
    remove_path(former)
    _rename(dest, former)
    _rename(draft, dest)
    remove_path(former)
    datasets = tuple(replace(each, path=moved(each.path)) for each in report.datasets)
    return replace(report, dest=dest, datasets=datasets)
