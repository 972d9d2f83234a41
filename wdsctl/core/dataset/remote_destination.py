"""Check a destination in a store, and list what it holds."""

from __future__ import annotations

from collections.abc import Sequence

from wdsctl.core.dataset.location import META_FOLDER
from wdsctl.core.dataset.writer_marker import is_written_by_another
from wdsctl.core.errors import UsageError
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.text import path_for_message
from wdsctl.core.urls import is_chained, is_url, normalize_root, protocol, redact_secrets

_READ_ONLY_PROTOCOLS = ("http", "https", "hf")
_MAX_SHOWN_NAMES = 3


def check_remote_destination(sources: Sequence[str], dest: str) -> None:
    """Raise UsageError for a URL that wdsctl cannot write to, or that overlaps with a source. Sends no request."""
    shown = redact_secrets(dest)
    if protocol(dest) in _READ_ONLY_PROTOCOLS:
        raise UsageError(
            f"wdsctl cannot write to {protocol(dest)}:// URLs",
            where=shown,
            hint="write to a disk, or to s3://, gs:// or az://",
        )
    if is_chained(dest) or "?" in dest:
        raise UsageError(
            "the destination is a chained URL or has a query", where=shown, hint="pass the URL of the store itself"
        )
    for source in sources:
        if is_url(source):
            one, other = f"{normalize_root(source)}/", f"{normalize_root(dest)}/"
            if one.startswith(other) or other.startswith(one):
                raise UsageError(
                    "the source and the destination overlap: one contains the other",
                    where=f"{redact_secrets(source)} and {shown}",
                    hint="choose a destination outside the source",
                )


def list_objects(dest: str) -> dict[str, int]:
    """Path below `dest` -> bytes of all objects that are in no hidden folder, such as `.wdsctl`."""
    prefix = f"{normalize_root(dest)}/"
    names = {each.url.removeprefix(prefix): each.size for each in ObjectStore(dest).list(normalize_root(dest))}
    return {
        name: size for name, size in names.items() if not any(folder.startswith(".") for folder in name.split("/")[:-1])
    }


def check_remote_empty(dest: str) -> None:
    """Raise UsageError if the destination has objects other than those in `.wdsctl`, and nobody writes them now."""
    names = sorted(list_objects(dest))
    if names and not is_written_by_another(dest):
        more = ", ..." if len(names) > _MAX_SHOWN_NAMES else ""
        raise UsageError(
            f"the destination is not empty: {', '.join(map(path_for_message, names[:_MAX_SHOWN_NAMES]))}{more}",
            where=redact_secrets(dest),
            hint="choose an empty or a new folder",
        )


def check_holds_no_remote_dataset(dest: str) -> None:
    """Raise UsageError WDS253 if a dataset with a catalog beside its data lies below the destination."""
    prefix = f"{normalize_root(dest)}/"
    marker = f"/{META_FOLDER}/"
    names = (each.url.removeprefix(prefix) for each in ObjectStore(dest).list(normalize_root(dest)))
    inner = next((name.partition(marker)[0] for name in names if marker in name), None)
    if inner is not None:
        raise UsageError(
            f"the destination contains the dataset {path_for_message(inner)}, and would then include its shards",
            where=redact_secrets(dest),
            hint="choose a destination next to that dataset",
            code="WDS253",
        )
