"""The options of packing, checked when they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from wdsctl.core.errors import UsageError, require_int
from wdsctl.loader.packing.methods import METHODS, PackingMethod
from wdsctl.loader.runtime.identity import qualified_name

LengthSource = str | Callable[[Any], int]
TooLongPolicy = Literal["error", "drop", "truncate", "split"]

DEFAULT_WINDOW_SAMPLES = 16384


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Options for packing samples so that their lengths add up to at most `capacity`.

    `length`: the name of a column of the catalog, or a function of the (pre-)encoded sample that returns an integer.
    For several budgets, a mapping from the budget's name to its length, and `capacity` with the same names; packing
    efficiency is reported for the first. `window`: samples that are planned together. With columns, planning costs some
    370 bytes per sample, and reads no sample before its pack is made. With a function, the samples are held in memory,
    and seeding its random numbers takes 9 us per sample. `too_long`, for samples above the capacity: "error" ends the
    run, "drop" leaves them out and counts them, "truncate" cuts them at the capacity, "split" makes pieces. The last
    two need a single budget. Raises UsageError for invalid options.
    """

    length: LengthSource | Mapping[str, LengthSource]
    capacity: int | Mapping[str, int]
    method: PackingMethod = "best_fit"
    window: int = DEFAULT_WINDOW_SAMPLES
    too_long: TooLongPolicy = "error"

    def __post_init__(self) -> None:
        _check_choice("method", self.method, METHODS)
        _check_choice("too_long", self.too_long, get_args(TooLongPolicy))
        object.__setattr__(self, "window", _positive_int("window", self.window))
        if isinstance(self.length, Mapping) != isinstance(self.capacity, Mapping):
            raise UsageError(
                "`length` and `capacity` must name the same budgets",
                hint="pass two mappings with the same names, or one length and one capacity",
            )
        if isinstance(self.length, Mapping) and isinstance(self.capacity, Mapping):
            object.__setattr__(self, "length", dict(self.length))
            object.__setattr__(self, "capacity", _check_capacities(self.length, self.capacity))
        else:
            object.__setattr__(self, "capacity", _positive_int("capacity", self.capacity))
        for name, length in self.lengths.items():
            if not length or not (isinstance(length, str) or callable(length)):
                raise UsageError(
                    f"Packing: the length {name!r} is {length!r}, expected a column or a function",
                    hint="pass the name of a column, or a function of the sample",
                )
        if len(self.lengths) > 1 and self.too_long in {"truncate", "split"}:
            raise UsageError(
                f"too_long={self.too_long!r} with several budgets: only one budget can decide where to cut",
                hint="pass 'error' or 'drop', or cut samples in encode_sample",
            )

    @property
    def lengths(self) -> dict[str, LengthSource]:
        """Budget -> source of its lengths. A single budget is named "length"."""
        return dict(self.length) if isinstance(self.length, Mapping) else {"length": self.length}

    @property
    def capacities(self) -> tuple[int, ...]:
        """The capacity of each budget, in the order of `lengths`."""
        if isinstance(self.capacity, Mapping):
            return tuple(self.capacity[name] for name in self.lengths)
        return (self.capacity,)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns with the lengths; None if any length is a function, so that planning must read samples."""
        names = tuple(length for length in self.lengths.values() if isinstance(length, str))
        return names if len(names) == len(self.lengths) else None

    def config(self) -> dict[str, Any]:
        """The options as JSON for the recipe's tier of the fingerprint. Functions are given by name."""
        lengths = {
            name: length if isinstance(length, str) else qualified_name(length) for name, length in self.lengths.items()
        }
        return {
            "method": self.method,
            "lengths": lengths,
            "capacities": list(self.capacities),
            "window": self.window,
            "too_long": self.too_long,
        }


def _check_capacities(lengths: Mapping[str, Any], capacities: Mapping[str, int]) -> dict[str, int]:
    if not lengths or lengths.keys() != capacities.keys():
        raise UsageError(
            f"packing has lengths for {', '.join(lengths) or 'nothing'}, and capacities for "
            f"{', '.join(capacities) or 'nothing'}",
            hint="name the same budgets in both",
        )
    return {name: _positive_int(f"the capacity of {name!r}", capacities[name]) for name in lengths}


def _positive_int(name: str, value: Any) -> int:
    number = require_int(name, value)
    if number < 1:
        raise UsageError(f"{name} is {number}", hint="pass 1 or more")
    return number


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"Packing: {name}={value!r} is not supported", hint=f"pass one of {', '.join(choices)}")
