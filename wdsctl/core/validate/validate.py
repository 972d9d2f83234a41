"""`validate` and `validate --release` of a root, which is a dataset or a blend file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wdsctl.core.dataset.polylithic import find_polylithic_folder, is_polylithic
from wdsctl.core.dataset.view_root import is_blend_file
from wdsctl.core.errors import OptionConflict, UsageError
from wdsctl.core.options import changed_options
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.validate.request import (
    ReleaseReport,
    ValidateCommand,
    ValidateReport,
    ValidateRequest,
    check_release_options,
    check_request,
    parse_levels,
)
from wdsctl.plugins import LOAD_CHECK, LoadCheckName

__all__ = ["ReleaseReport", "ValidateReport", "ValidateRequest", "release", "run_validate", "validate"]

DEFAULT_REQUEST = ValidateRequest()


def run_validate(command: ValidateCommand, *, progress: Progress = SILENT_PROGRESS) -> ValidateReport | ReleaseReport:
    """Check a dataset, or all datasets of a blend file, for errors: `wdsctl validate`. Findings are in the report.

    With `release`, which excludes the options that check, ends the quarantine and returns a `ReleaseReport`. Raises the
    errors of `validate` and `release`.
    """
    request = command.request
    if command.release:
        kept = ("root", "shards", "quarantine", "release", "wait", "workers", "catalog")
        check_release_options(each.flag for each, _ in changed_options(command) if each.name not in kept)
        return release(
            command.root,
            shards=request.shards,
            quarantine=request.quarantine,
            catalog=command.catalog,
            workers=command.workers,
            wait=command.wait,
            progress=progress,
        )
    levels = command.level or parse_levels(["structure", *(["refs"] if request.refs else [])])
    return validate(
        command.root,
        replace(request, levels=levels),
        catalog=command.catalog,
        workers=command.workers,
        wait=command.wait,
        progress=progress,
        load_check=LOAD_CHECK,
    )


def validate(
    root: str,
    request: ValidateRequest = DEFAULT_REQUEST,
    *,
    catalog: str | None = None,
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
    load_check: LoadCheckName | None = None,
) -> ValidateReport:
    """Validate a dataset (`ROOT` or `ROOT@VIEW`), every dataset of a blend file, or both of a polylithic dataset.

    `load_check`: the function that opens the check of the level `load`, `module:function` (`wdsctl.plugins`). Without
    it, the level does not run.

    Raises the errors of `validate_dataset`, `validate_blend` and `validate_polylithic`, and UsageError for a blend
    file with `catalog`.
    """
    check_request(request)
    if _is_blend(root, catalog):
        from wdsctl.core.validate.blend import validate_blend

        return validate_blend(root, request, workers=workers, wait=wait, progress=progress, load_check=load_check)
    if catalog is None and find_polylithic_folder(root):
        from wdsctl.core.validate.blend import validate_polylithic

        return validate_polylithic(root, request, workers=workers, wait=wait, progress=progress, load_check=load_check)
    from wdsctl.core.validate.dataset import validate_dataset

    return validate_dataset(
        root, request, catalog=catalog, workers=workers, wait=wait, progress=progress, load_check=load_check
    )


def release(
    root: str,
    *,
    shards: Sequence[str] = (),
    quarantine: bool = False,
    catalog: str | None = None,
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> ReleaseReport:
    """Release the quarantine of a dataset, or of every dataset of a blend file, or only that of `shards`.

    A polylithic dataset counts as two. Raises the errors of `release_from_quarantine` and `release_blend`, and
    UsageError for a blend file with `catalog` or if the option `quarantine` is set too.
    """
    if quarantine:
        raise OptionConflict(
            "--quarantine and --release contradict each other",
            options=("--quarantine", "--release"),
            are_exclusive=True,
            hint="omit one of the two options",
        )
    if _is_blend(root, catalog):
        from wdsctl.core.validate.blend import release_blend

        return release_blend(root, shards=shards, workers=workers, wait=wait, progress=progress)
    from wdsctl.core.validate.quarantine import release_from_quarantine

    if catalog is None and is_polylithic(root):
        from wdsctl.core.validate.blend import release_polylithic

        return release_polylithic(root, shards=shards, workers=workers, wait=wait, progress=progress)
    return release_from_quarantine(root, shards=shards, catalog=catalog, workers=workers, wait=wait, progress=progress)


def _is_blend(root: str, catalog: str | None) -> bool:
    is_blend = is_blend_file(root)
    if is_blend and catalog is not None:
        raise UsageError(
            "--catalog names the catalog of one dataset, but a blend file has several datasets", hint="remove --catalog"
        )
    return is_blend
