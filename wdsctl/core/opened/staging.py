"""Change the catalog of an open dataset, in one step or in several ones that are published together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from wdsctl.core.catalog.draft import CatalogDraft
from wdsctl.core.catalog.stage import change_draft, connect_draft, reset_change_counter
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.lock import check_lock_held
from wdsctl.core.files import FileDraft, open_file_draft
from wdsctl.core.opened.handle import OpenDataset, StagedCatalog


class CatalogStage:
    """The next catalog of a dataset, which several steps of one command write.

    The first step drafts it (`begin`). From then on `dataset` reads the draft, and the other steps change it
    (`change_catalog`) like a published catalog, which stays valid until the end. The caller holds the lock.
    """

    def __init__(self, dataset: OpenDataset) -> None:
        self.dataset = dataset
        self._file: FileDraft | None = None
        self._opened = ExitStack()
        self._after: list[Callable[[], None]] = []

    @property
    def location(self) -> DatasetLocation:
        return self.dataset.location

    @contextmanager
    def begin(self, *, from_scratch: bool = False) -> Iterator[CatalogDraft]:
        """Draft a copy of the published catalog, or an empty one if there is none or `from_scratch` is set.

        If the block raises, nothing is staged. Raises as `connect_draft` does.
        """
        path = self.location.catalog_path
        with ExitStack() as opened:
            file = opened.enter_context(open_file_draft(path))
            connection = opened.enter_context(connect_draft(file.path, path, from_scratch=from_scratch))
            with change_draft(connection, file.path, path) as draft:
                yield draft
            self._opened = opened.pop_all()
        self._file = file
        self.dataset.read_draft(StagedCatalog(connection, file.path))

    def after_publish(self, call: Callable[[], None]) -> None:
        """Call `call` after the staged catalog is published, for example to remove the results of finished units."""
        self._after.append(call)

    def publish(self) -> None:
        """Publish the staged catalog, if there is one. Raises StorageError, and what the lock raises if it is lost.

        A draft that a step could not finish is not published (`change_catalog`): the published catalog stays.
        """
        file, self._file = self._file, None
        after, self._after = self._after, []
        with self._opened:
            if file is not None:
                state, staged = self.dataset.state(), self.dataset.read_published()
                if not staged.is_whole:
                    return
                check_lock_held(self.location.lock)
                staged.connection.close()
                reset_change_counter(staged.path)
                file.publish()
                self.dataset.keep_state(state)
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
    finally:
        stage.publish()


@contextmanager
def change_catalog(dataset: OpenDataset) -> Iterator[CatalogDraft]:
    """Change the catalog of `dataset`, which reads the changed one afterwards. The caller holds the lock.

    Changes a staged catalog in place, and spoils it if the block raises. Otherwise changes a copy of the published
    catalog, and publishes it if the block succeeds. Raises CatalogError WDS302 and WDS303, StorageError.
    """
    staged = dataset.staged
    if staged is None:
        stage = CatalogStage(dataset)
        with stage.begin() as draft:
            yield draft
        stage.publish()
        return
    dataset.close_catalog()
    staged.is_whole = False  # until the end of the block: a half-changed draft must not be published
    with change_draft(staged.connection, staged.path, dataset.location.catalog_path) as draft:
        yield draft
    staged.is_whole = True
