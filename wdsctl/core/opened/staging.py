"""Change the catalog of an open dataset, in one step or in several ones that are published together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from wdsctl.core.catalog.draft import CatalogDraft
from wdsctl.core.catalog.stage import open_draft, write_draft
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.lock import check_lock_held
from wdsctl.core.errors import WdsctlError
from wdsctl.core.files import FileDraft, open_file_draft, remove_file
from wdsctl.core.opened.handle import OpenDataset


class CatalogStage:
    """The next catalog of a dataset, which several steps of one command write.

    The first step drafts it (`begin`). From then on `dataset` reads the draft, and the other steps change it
    (`change_catalog`) like a published catalog, which stays valid until the end. The caller holds the lock.
    """

    def __init__(self, dataset: OpenDataset) -> None:
        self.dataset = dataset
        self._file: FileDraft | None = None
        self._open_files = ExitStack()
        self._after: list[Callable[[], None]] = []

    @property
    def location(self) -> DatasetLocation:
        """Where the steps read and change the catalog."""
        return self.dataset.location

    @contextmanager
    def begin(self, *, from_scratch: bool = False) -> Iterator[CatalogDraft]:
        """Begin the first draft, as `open_draft` does. If the block raises, nothing is staged."""
        published = self.location.published_catalog
        with ExitStack() as opened:
            file = opened.enter_context(open_file_draft(published))
            with write_draft(file.path, published, from_scratch=from_scratch) as draft:
                yield draft
            self._open_files = opened.pop_all()
        self._file = file
        self.dataset.move(replace(self.location, staged_catalog=file.path))

    def after_publish(self, call: Callable[[], None]) -> None:
        """Call `call` after the staged catalog is published, for example to remove the results of finished units."""
        self._after.append(call)

    def publish(self) -> None:
        """Publish the staged catalog, if there is one. Raises StorageError, and what the lock raises if it is lost.

        A draft that a step could not finish was removed (`change_catalog`): the published catalog stays.
        """
        file, self._file = self._file, None
        after, self._after = self._after, []
        if file is not None:
            self.dataset.move(replace(self.location, staged_catalog=""))
        with self._open_files:
            if file is not None:
                if not os.path.exists(file.path):
                    return
                check_lock_held(self.location.lock)
                file.publish()
        for call in after:
            call()


@contextmanager
def stage_catalog(dataset: OpenDataset) -> Iterator[CatalogStage]:
    """Stage a catalog that several steps write, and publish it when the block ends.

    The catalog is published even if the block ends by an error or Ctrl-C, as the finished steps are complete and took
    long. If the process is killed, the published catalog stays, and the next run finds the units of the steps.
    """
    stage = CatalogStage(dataset)
    try:
        yield stage
    except WdsctlError as error:
        here = stage.location
        error.where = error.where.replace(here.catalog_path, here.published_catalog)
        raise
    finally:
        stage.publish()


@contextmanager
def change_catalog(dataset: OpenDataset) -> Iterator[CatalogDraft]:
    """Change the catalog of `dataset`, which reads the changed one afterwards. The caller holds the lock.

    Changes a staged catalog in place, and removes it if the block raises. Changes a copy of a published catalog, and
    publishes the copy, as `open_draft` does. Raises CatalogError WDS302 and WDS303, StorageError.
    """
    location = dataset.location
    dataset.close_catalog()  # a staged file has one reader or one writer
    if not location.staged_catalog:
        with open_draft(location.catalog_path, before_publish=partial(check_lock_held, location.lock)) as draft:
            yield draft
        return
    try:
        with write_draft(location.staged_catalog, location.published_catalog) as draft:
            yield draft
    except BaseException:  # Ctrl-C too: a half-changed stage must not be published later
        remove_file(location.staged_catalog)
        raise
