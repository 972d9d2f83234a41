"""The windows that the user asks for: for a feature, seconds relative to the frame, as frames."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.core.samples.fields import did_you_mean

DeltaTimestamps = Mapping[str, Sequence[float]]
TOLERANCE_S = 1e-4  # LeRobot's default


def check_delta_timestamps(given: Any, tolerance_s: Any) -> tuple[dict[str, tuple[float, ...]] | None, float]:
    """The arguments `delta_timestamps` and `tolerance_s` of a loader as plain values. Raises UsageError."""
    if isinstance(tolerance_s, bool) or not isinstance(tolerance_s, (int, float)) or not 0 <= tolerance_s < math.inf:
        raise UsageError(f"tolerance_s is {tolerance_s!r}", hint="pass seconds, such as 0.0001")
    if given is None:
        return None, float(tolerance_s)
    if not isinstance(given, Mapping):
        raise _bad_windows_error(f"delta_timestamps is {given!r}")
    checked = {}
    for name, deltas in given.items():
        if isinstance(deltas, (str, bytes)) or not isinstance(deltas, Sequence) or not len(deltas):
            raise _bad_windows_error(f"delta_timestamps[{name!r}] is {deltas!r}")
        odd = [delta for delta in deltas if isinstance(delta, bool) or not isinstance(delta, (int, float))]
        if odd or not all(map(math.isfinite, deltas)):
            raise _bad_windows_error(f"delta_timestamps[{name!r}] has a value that is no number of seconds: {deltas!r}")
        checked[str(name)] = tuple(map(float, deltas))
    return checked, float(tolerance_s)


def frame_deltas(
    windows: Mapping[str, Sequence[float]], fps: float, tolerance_s: float, features: Collection[str], where: str
) -> dict[str, tuple[int, ...]]:
    """Windows as numbers of frames, by feature. `features`: those that can have a window.

    Raises UsageError for another feature, and for a time that is no multiple of 1 / fps within the tolerance.
    """
    for name, deltas in windows.items():
        if name not in features:
            raise UsageError(
                f"delta_timestamps: the dataset has no feature {name!r} with windows",
                where=where,
                hint=did_you_mean(name, features) or f"choose one of {', '.join(sorted(features))}",
            )
        off = [delta for delta in deltas if abs(delta * fps - round(delta * fps)) / fps > tolerance_s]
        if off:
            nearest = ", ".join(f"{round(delta * fps) / fps:.6g}" for delta in off[:3])
            raise UsageError(
                f"delta_timestamps[{name!r}]: {', '.join(map(str, off[:3]))} s is no multiple of 1/{fps:g} s, the time "
                f"between two frames (tolerance {tolerance_s:g} s)",
                where=where,
                hint=f"pass {nearest}, or a larger tolerance_s",
            )
    return {name: tuple(round(delta * fps) for delta in deltas) for name, deltas in windows.items()}


def no_sequences_error(dataset: str) -> UsageError:
    """The error for windows over a dataset without sequences."""
    return UsageError(
        "delta_timestamps needs a dataset whose samples are frames of sequences",
        where=dataset,
        hint="write `sequences: {fps: 30}`, with the right rate, into dataset.yaml if its keys are SEQUENCE/NUMBER",
    )


def _bad_windows_error(problem: str) -> UsageError:
    return UsageError(
        problem, hint='pass seconds by feature, such as delta_timestamps={"action": [0, 0.1, 0.2], "jpg": [-0.1, 0]}'
    )
