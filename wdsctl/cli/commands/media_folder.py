"""What `prepare`, `index` and `inspect` do where ROOT is a folder of media files, without shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wdsctl.cli import exit_codes, options
from wdsctl.core.errors import UsageError

if TYPE_CHECKING:
    from wdsctl.core.verbs.media_request import MediaRequest


@dataclass(frozen=True, slots=True)
class Request:
    root: str
    catalog: str | None
    media: MediaRequest
    exclude: list[str] | None = None
    workers: int | None = None
    rebuild: bool = False
    dry_run: bool = False
    wait: float = 0.0


def is_one(root: str, catalog: str | None, media: str | None = None) -> bool:
    """Whether it has the catalog of such a folder, or would get it: no shards, and facts of media are asked for."""
    from wdsctl.core.verbs.presence import is_media_folder

    return is_media_folder(root, catalog, asked=media is not None)


def refuse(*, columns: bool = False, missing: str = "error", of_shards: bool = False) -> None:
    """What makes no sense of a folder of media. Raises UsageError."""
    if of_shards:
        raise UsageError(
            "a folder of media has no shards to hash, and its files are its rows",
            hint="leave --hash and --no-sample-rows out",
            code="WDS322",
        )
    if columns:
        raise UsageError(
            "a folder of media has no samples, and so no columns",
            hint="write shards of it, `wdsctl prepare FOLDER DEST`, or query v_file (docs/catalog.md)",
            code="WDS322",
        )
    if missing == "keep":
        raise UsageError("files of a folder of media that are gone are forgotten", hint="leave out --missing")


def run(request: Request, command: str, common: options.Common) -> int:
    """Bring its catalog up to date."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.media import render_index
    from wdsctl.core.verbs.media_folder import index_media_folder

    with listening(common.output) as progress:
        report = index_media_folder(
            request.root,
            catalog=request.catalog,
            media=request.media,
            exclude=request.exclude or (),
            rebuild=request.rebuild,
            workers=options.worker_count(request.workers),
            dry_run=request.dry_run,
            wait=request.wait,
            progress=progress,
        )
    common.output.answer(command, report, render_index)
    return exit_codes.of_media_folder(report)


def show(root: str, catalog: str | None, samples: int, common: options.Common) -> int:
    """What is in it."""
    from wdsctl.cli.render.media import render_inspect
    from wdsctl.core.verbs.inspect_media_folder import inspect_media_folder

    report = inspect_media_folder(root, catalog=catalog, samples=samples)
    common.output.answer("inspect", report, render_inspect)
    return exit_codes.of_media_folder(report)
