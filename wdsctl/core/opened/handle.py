"""The handle of an open dataset.

A handle is for one thread and one process, and is not sent to others: its `location` is.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from wdsctl.core.catalog.browse import CatalogBrowser
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.directories import keep_folder_open
from wdsctl.core.errors import WdsctlError

if TYPE_CHECKING:
    from wdsctl.core.catalog.ledger import Ledger
    from wdsctl.core.dataset.config import DatasetConfig
    from wdsctl.core.offsets.read import Offsets


CatalogState = dict[str, int]  # generation, shards and samples


@dataclass(slots=True)
class StagedCatalog:
    """The next catalog, which a command is writing. `is_whole`: whether its last change is finished."""

    connection: sqlite3.Connection
    path: str
    is_whole: bool = True


class OpenDataset:
    """A dataset whose files are opened when they are first read. Close it, or use it in a `with`.

    `view`: the name of the view that the user selected; empty for the whole dataset. After its first use, the catalog
    stays the same until `refresh`, also if a writer replaces the file. `recorder`: the ledger that records the command
    now (`recording`), or None. `staged`: the next catalog while this command writes it (`CatalogStage`), or None;
    `catalog` is then this one.
    """

    def __init__(self, location: DatasetLocation, view: str = "") -> None:
        self.location = location
        self.view = view
        self.recorder: Ledger | None = None
        self.staged: StagedCatalog | None = None
        self._folder = ExitStack()
        self._is_held = False
        self._revision: tuple[int, ...] | None = None
        self._config: tuple[tuple[int, ...] | None, DatasetConfig] | None = None
        self._kept_state: tuple[tuple[int, ...] | None, CatalogState | None] | None = None

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog. Raises CatalogError WDS301, WDS302 and WDS303, at every use."""
        if self.staged is not None:
            return Catalog(self.staged.connection, self.location.catalog_path)
        self.keep_folder_open()
        self._revision = file_revision(self.location.catalog_path)
        return Catalog.open(self.location.catalog_path)

    @cached_property
    def browser(self) -> CatalogBrowser:
        """The samples of the catalog. Raises as `catalog` does."""
        return CatalogBrowser(self.catalog)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, for views. Empty if there is none. Raises as `Ledger.open_for_views` does."""
        from wdsctl.core.catalog.ledger import Ledger

        self.keep_folder_open()
        return Ledger.open_for_views(self.location.ledger_path)

    @contextmanager
    def checked_ledger(self) -> Iterator[Ledger]:
        """The ledger, all of whose pages were checked: that of the recording, else one that is open for the block."""
        if self.recorder is not None:
            yield self.recorder
            return
        from wdsctl.core.catalog.ledger import Ledger

        with Ledger.open_for_reading(self.location.ledger_path) as ledger:
            yield ledger

    def offsets(self, generation: int | None = None) -> Offsets:
        """The offsets of a generation, by default the catalog's, opened at each call. Raises as `Offsets` does."""
        from wdsctl.core.offsets.read import Offsets

        return Offsets(self.location.offsets_path(self.catalog.generation if generation is None else generation))

    def has_config(self) -> bool:
        return os.path.exists(self.location.config_path)

    @property
    def config(self) -> DatasetConfig:
        """`dataset.yaml`, parsed again if the file has changed; default values without it. Raises as `load_config`."""
        from wdsctl.core.dataset.config import DatasetConfig, load_config

        path = self.location.config_path
        revision = file_revision(path)
        if self._config is None or self._config[0] != revision:
            self._config = revision, DatasetConfig() if revision is None else load_config(path)
        return self._config[1]

    def state(self) -> CatalogState | None:
        """Generation, shards and samples, for the history; None if there is no catalog that can be read."""
        if self.staged is None and self._kept_state is not None:
            revision, state = self._kept_state
            if revision == file_revision(self.location.catalog_path):
                return state
        try:
            [(shards, samples)] = self.catalog.rows(
                "SELECT count(*), coalesce(sum(samples), 0) FROM shard WHERE removed IS NULL"
            )
            return {"generation": self.catalog.generation, "shards": shards, "samples": samples}
        except WdsctlError:
            return None

    def keep_state(self, state: CatalogState | None) -> None:
        """Remember the state of a catalog that was just published, so that `state` need not open it."""
        self._kept_state = file_revision(self.location.catalog_path), state

    def refresh(self) -> None:
        """Read what is there now. A catalog that no writer has replaced stays open."""
        self._close("ledger", *(() if self.is_current() else ("browser", "catalog")))

    def is_current(self) -> bool:
        """Whether no writer has replaced the catalog since it was opened."""
        return self._revision == file_revision(self.location.catalog_path)

    def use(self, location: DatasetLocation) -> None:
        """Continue at the address for writing. What is open stays open, if it is the same folder."""
        if location != self.location:
            self.close()
        self.location = location

    def has_catalog(self) -> bool:
        return self.staged is not None or os.path.exists(self.location.catalog_path)

    def catalog_bytes(self) -> int:
        """The size of the catalog's file; 0 if there is none."""
        with suppress(OSError):
            return os.path.getsize(self.location.catalog_path if self.staged is None else self.staged.path)
        return 0

    def read_draft(self, staged: StagedCatalog) -> None:
        """Read the next catalog from now on."""
        self.close_catalog()
        self.staged = staged

    def read_published(self) -> StagedCatalog:
        """Read the published catalog again. Returns the staged one."""
        if self.staged is None:
            raise ValueError("no catalog is staged")
        self.close_catalog()
        staged, self.staged = self.staged, None
        return staged

    def close_catalog(self) -> None:
        """Close the catalog until its next use, which opens what is there then."""
        self._close("browser", "catalog")

    def keep_folder_open(self) -> None:
        """Keep wdsctl's folder open until `close`, if it exists."""
        if not self._is_held:
            self._is_held = self._folder.enter_context(keep_folder_open(self.location.meta))

    def close(self) -> None:
        self._close("ledger", "browser", "catalog")
        self._folder.close()
        self._is_held = False

    def _close(self, *names: str) -> None:
        """Forget what these properties have opened, so that the next use opens it again."""
        for name in names:
            opened = self.__dict__.pop(name, None)
            is_staged = name == "catalog" and self.staged is not None  # whose connection is of the stage
            if name in ("ledger", "catalog") and opened is not None and not is_staged:
                opened.close()

    def __enter__(self) -> OpenDataset:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def file_revision(path: str) -> tuple[int, ...] | None:
    """Tells whether a writer has replaced the file. The generation does not: `split` and `vacuum` keep it."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
