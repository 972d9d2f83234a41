"""What a rank does where others have more batches of a pass than it has, or fewer: the `uneven` of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wdsctl.core.errors import LoaderError
from wdsctl.loader import distributed
from wdsctl.loader.dataset import Dataset
from wdsctl.loader.passes import Passes
from wdsctl.loader.randomness import callers_generators_kept
from wdsctl.loader.recipes import draws_randomly
from wdsctl.loader.training import Training


class EvenRanks:
    """Draws the batches of one rank so that, unless `uneven` is "keep", all ranks have equally many in each pass.

    `is_padding`: whether the batch that was drawn last only evens out the ranks.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.is_padding = False
        self._uneven = dataset.uneven
        self._workers = dataset.worker_config
        self._draws_randomly = draws_randomly(dataset)
        self._last: Any = None

    def draw(self, run: Training | Passes, next_batch: Callable[[], Any]) -> Any:
        """`next_batch()`, which is the run's, or the last batch once more. StopIteration where the pass is over.

        A rank that has no last batch, because it was restored or has none in this pass, gets one of those that its pass
        has (`batch_for_padding`). Raises LoaderError WDS510 where the ranks would have to agree and cannot, WDS511
        where no batch can be made.
        """
        self.is_padding = False
        batch = self._even(run, next_batch) if self._evens(run) else next_batch()
        self._last = batch if self._uneven == "pad" else None
        return batch

    def forget(self) -> None:
        """A pass is over: the next one is not padded with a batch of this one."""
        self._last = None

    def length(self, run: Passes) -> int:
        """Batches of this rank in a pass."""
        return run.even_length(pads=self._uneven == "pad") if self._evens(run) else len(run)

    def _evens(self, run: Training | Passes) -> bool:
        """Whether this run may have more batches on one rank than on another, and that is to be evened out."""
        return not run.is_endless and self._uneven != "keep" and self._workers.world_size > 1

    def _even(self, run: Training | Passes, next_batch: Callable[[], Any]) -> Any:
        drops = self._uneven == "drop"
        if isinstance(run, Passes) and not self._draws_randomly:
            # Every run of positions is one batch: which rank has how many is known without asking.
            if not (run.all_have_more if drops else run.any_has_more):
                raise StopIteration
            return next_batch() if run.has_more else self._padding(run)
        self._check_group()
        batch: Any = None
        try:
            batch = next_batch()
            has_ended = False
        except StopIteration:
            has_ended = True
        ask = distributed.any_rank if drops else distributed.all_ranks
        if ask(has_ended, self._workers.data_parallel_group):
            raise StopIteration
        return self._padding(run) if has_ended else batch

    def _check_group(self) -> None:
        """What hooks leave out or make more of is known when it happens: the ranks have to tell one another."""
        if not distributed.is_running(self._workers):
            raise LoaderError(
                f"uneven={self._uneven!r} with hooks, packing or grouping needs the ranks to agree on every "
                "batch, and torch.distributed is not running for them",
                hint="initialise torch.distributed first (and give data_parallel_group), or uneven='keep'",
                code="WDS510",
            )

    def _padding(self, run: Training | Passes) -> Any:
        if self._last is None:
            with callers_generators_kept():
                self._last = run.batch_for_padding()
        if self._last is None:
            raise LoaderError(
                "this rank has no batch, and can make none of its pass to pad with",
                hint="look into the log for what fails here and not on other ranks; uneven='keep' needs no padding",
                code="WDS511",
            )
        run.pad()
        self.is_padding = True
        return self._last
