"""The loader: iterate it, save it at any moment, and go on from there on any number of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.dataset import TrainDataset, ValDataset
from wdsctl.loader.hooks import draws_randomly
from wdsctl.loader.randomness import callers_generators_kept
from wdsctl.loader.states import State
from wdsctl.loader.stats import Stats
from wdsctl.loader.training import Training
from wdsctl.loader.validation import Validation


class Loader:
    """The batches of one rank.

    Breaking out of a `for` loop loses nothing: the next one goes on with the very next batch. A training never ends;
    a validation ends after one pass, and the next loop begins the next pass.
    """

    def __init__(self, dataset: TrainDataset | ValDataset) -> None:
        self._dataset = dataset
        self._run: Training | Validation | None = None
        self._keeps = draws_randomly(dataset)

    def __iter__(self) -> Iterator[Any]:
        run = self._running()
        while True:
            try:
                with callers_generators_kept() if self._keeps else nullcontext():
                    batch = run.draw()
            except StopIteration:
                return
            run.accept()  # nothing between this and the yield, where an interrupt could lose the batch
            yield batch
            run = self._running()

    def __len__(self) -> int:
        """Batches of this rank in one pass. TypeError for a training: it has no end."""
        run = self._running()
        if isinstance(run, Training):
            raise TypeError("a training has no length: it goes on without end")
        return len(run)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def stats(self) -> Stats:
        """What this loader has delivered and skipped, and where the time went."""
        return self._running().stats

    def config(self) -> dict[str, Any]:
        """Everything that decides what comes, resolved: the plan, as JSON."""
        plan = self._running().plan
        return {"fingerprint": plan.fingerprint(), "order": plan.order, "recipe": plan.recipe}

    def state_dict(self) -> State:
        """Where this rank stands: after the batch that was handed out last. JSON, under a millisecond."""
        return self._running().state_dict()

    def load_state_dict(self, state: State | Sequence[State], *, strict: bool = False) -> None:
        """Go where a state says, at any time: this rank's own state, all ranks' states, or a merged one.

        Raises StateMismatch where the state belongs to other data, another order or too few ranks. Other hooks or
        another batch size draw a warning, and are refused if `strict`.
        """
        kind = Training if isinstance(self._dataset, TrainDataset) else Validation
        given: Any = state
        # None would begin anew; a checkpoint that lost its state must not.
        run = kind(self._dataset, {} if given is None else given, strict=strict)  # type: ignore[arg-type]
        self.close()
        self._run = run

    def save_state_rank(self) -> State:
        """What `state_dict` says, under the name that Energon has for it."""
        return self.state_dict()

    def restore_state_rank(self, state: State | Sequence[State] | None, *, strict: bool = False) -> None:
        """What `load_state_dict` does; None, from a job that had not begun, changes nothing."""
        if state is not None:
            self.load_state_dict(state, strict=strict)

    def close(self) -> None:
        """Close the shards. The loader may be iterated again: it opens them anew, and goes on where it was."""
        if self._run is not None:
            self._run.close()

    def _running(self) -> Training | Validation:
        if self._run is None:
            self._run = (
                Training(self._dataset) if isinstance(self._dataset, TrainDataset) else Validation(self._dataset)
            )
        return self._run


def get_savable_loader(dataset: TrainDataset | ValDataset) -> Loader:
    """The loader of a dataset. Opening is lazy: the first batch, or the first question, opens it."""
    if not isinstance(dataset, (TrainDataset, ValDataset)):
        raise UsageError(
            f"a loader runs a dataset, not a {type(dataset).__name__}",
            hint="get_loader(get_train_dataset(path, batch_size=32))",
        )
    return Loader(dataset)


def get_loader(dataset: TrainDataset | ValDataset) -> Loader:
    """The same: every loader can be saved."""
    return get_savable_loader(dataset)
