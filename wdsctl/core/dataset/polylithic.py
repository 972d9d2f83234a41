"""The folder of a polylithic dataset: a primary with the samples, the media that they refer to, and what says so."""

from __future__ import annotations

import os
from typing import Any, Literal, NamedTuple

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.dataset.view_root import split_root
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.file_limits import read_whole
from wdsctl.core.json_text import read_json
from wdsctl.core.safe_open import check_beneath, open_below

MARKER_FILE = "polylithic.json"

#: The dataset.yaml of the complete samples, next to primary and media.
MONOLITHIC_CONFIG_FILE = "monolithic.yaml"

#: The part of a sample of the primary, if it is in tars, that names its media: part -> entry of the media dataset.
REFERENCES_PART = "refs.json"


class PolylithicFolder(NamedTuple):
    """Where primary and media are, and the form of the primary. `config`: the dataset.yaml of the complete samples,
    which may not exist. `is_shared`: whether samples refer to media under the keys of other samples.
    """

    primary: str
    media: str
    form: Literal["tar", "jsonl"]
    config: str
    is_shared: bool


def is_polylithic(path: str) -> bool:
    """Whether `convert` wrote primary and media into this folder."""
    return os.path.isfile(os.path.join(path, MARKER_FILE))


def read_marker(path: str) -> dict[str, Any]:
    """What `convert` recorded of a polylithic dataset. Raises InputError."""
    try:
        marker = os.path.join(path, MARKER_FILE)
        with open_below(marker, path) as file:
            content = read_json(read_whole(file, marker))
    except (OSError, ValueError) as error:
        raise _bad_marker_error(path, str(error)) from error
    if not isinstance(content, dict):
        raise _bad_marker_error(path, "it is not a JSON object")
    return content


def read_polylithic_folder(path: str) -> PolylithicFolder:
    """Raises InputError, and PermissionDenied if the record leads out of the folder."""
    content = read_marker(path)
    names, form = (content.get("primary"), content.get("media")), content.get("form")
    if not all(isinstance(name, str) and name for name in names) or form not in ("tar", "jsonl"):
        raise _bad_marker_error(path, "it lacks the primary, the media or the format of the primary")
    primary, media = (os.path.join(path, str(name)) for name in names)
    check_beneath(primary, path)
    check_beneath(media, path)
    config = os.path.join(path, MONOLITHIC_CONFIG_FILE)
    return PolylithicFolder(primary, media, form, config, content.get("shared") is True)


def find_polylithic_folder(text: str) -> PolylithicFolder | None:
    """The polylithic dataset that `ROOT` or `ROOT@VIEW` names; None for any other dataset."""
    root = split_root(text).root
    return read_polylithic_folder(root) if is_polylithic(root) else None


def follow_to_primary(text: str, catalog: str | None = None) -> str:
    """Return `ROOT` or `ROOT@VIEW` with the primary of a polylithic dataset in the place of its folder.

    The primary has the samples, the splits and the views. Other roots are returned unchanged. Raises like
    `read_polylithic_folder`.
    """
    root, view = split_root(text)
    if catalog or not is_polylithic(root):
        return text
    primary = read_polylithic_folder(root).primary
    return f"{primary}@{view}" if view else primary


def check_not_polylithic(root: str, verb: str, *arguments: str) -> None:
    """Raise UsageError for the folder of a polylithic dataset, with the commands for its primary and for its media.

    For commands about one dataset, in which the media are not left out unnoticed. Raises like `read_polylithic_folder`.
    """
    if not is_polylithic(root):
        return
    folder = read_polylithic_folder(root)
    primary, media = (shell_command(verb, each, *arguments) for each in (folder.primary, folder.media))
    raise UsageError(
        "the folder holds two datasets: a primary with the samples, and their media",
        where=root,
        hint=f"run {primary} for the samples, {media} for the media",
    )


def find_folder_of_primary(primary: str) -> PolylithicFolder | None:
    """Return the polylithic folder in which this dataset is the primary; None if it is not one. Raises like
    `read_polylithic_folder`.
    """
    folder = os.path.dirname(primary)
    if not is_polylithic(folder):
        return None
    layout = read_polylithic_folder(folder)
    return layout if os.path.abspath(layout.primary) == os.path.abspath(primary) else None


def _bad_marker_error(path: str, problem: str) -> InputError:
    return InputError(
        f"cannot read the {MARKER_FILE} of the dataset: {problem}",
        where=path,
        hint="convert the original dataset again with `--layout polylithic`",
    )
