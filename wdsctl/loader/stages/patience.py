"""When a lane gives up: a training in which nothing comes any more would otherwise run on for ever."""

from __future__ import annotations

from wdsctl.core.errors import LoaderError


def give_up_if_barren(samples: int, patience: int) -> None:
    """Raise LoaderError (WDS505) where more samples in a row than `patience` gave nothing."""
    if samples > patience:
        raise LoaderError(
            f"{samples:,} samples in a row gave nothing, as many as there are or more",
            hint="look at what raises SkipSample, and at the failures in the log",
            code="WDS505",
        )
