"""Write a catalog at a path, without a dataset around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wdsctl.core.catalog.draft import CatalogDraft
from wdsctl.core.catalog.stage import change_draft, connect_draft
from wdsctl.core.files import replace_atomically


@contextmanager
def open_draft(path: str, *, from_scratch: bool = False) -> Iterator[CatalogDraft]:
    """Draft the next catalog at `path`, and publish it if the block succeeds."""
    with (
        replace_atomically(path) as file,
        connect_draft(file, path, from_scratch=from_scratch) as connection,
        change_draft(connection, file, path) as draft,
    ):
        yield draft
