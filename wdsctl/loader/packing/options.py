"""What a training says about packing, checked when it is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from wdsctl.core.errors import UsageError
from wdsctl.loader.packing.plan import METHODS, Method
from wdsctl.loader.worker_config import whole

Length = str | Callable[[Any], int]
TooLong = Literal["error", "drop", "truncate", "split"]

WINDOW = 16384


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Samples are put together so that their lengths add up to `capacity` at most.

    `length`: the name of a column of the catalog, or a function of the (pre-)encoded sample that gives a whole number.
    For several budgets, a mapping from the budget's name to its length, and `capacity` with the same names; the first
    is the one that efficiency is told of. `window`: samples that are planned together. With columns it costs some 300
    bytes a sample, and nothing is read before its pack is made; with a function the samples themselves are held.
    `too_long`, for samples above the capacity: "error" ends the run, "drop" leaves them out and counts them, "truncate"
    cuts them at the capacity, "split" makes pieces. The last two need a capacity of one budget.
    Raises UsageError for anything else.
    """

    length: Length | Mapping[str, Length]
    capacity: int | Mapping[str, int]
    method: Method = "best_fit"
    window: int = WINDOW
    too_long: TooLong = "error"

    def __post_init__(self) -> None:
        _one_of("method", self.method, METHODS)
        _one_of("too_long", self.too_long, get_args(TooLong))
        object.__setattr__(self, "window", _least_one("window", self.window))
        if isinstance(self.length, Mapping) != isinstance(self.capacity, Mapping):
            raise UsageError(
                "packing has several budgets in one of length and capacity, and one in the other",
                hint="give both as mappings with the same names, or a length and a capacity",
            )
        if isinstance(self.length, Mapping) and isinstance(self.capacity, Mapping):
            object.__setattr__(self, "length", dict(self.length))
            object.__setattr__(self, "capacity", _capacities(self.length, self.capacity))
        else:
            object.__setattr__(self, "capacity", _least_one("capacity", self.capacity))
        for name, length in self.lengths.items():
            if not length or not (isinstance(length, str) or callable(length)):
                raise UsageError(
                    f"the length {name!r} of packing is {length!r}",
                    hint="give the name of a column, or a function of the sample",
                )
        if len(self.lengths) > 1 and self.too_long in {"truncate", "split"}:
            raise UsageError(
                f"too_long={self.too_long!r} with several budgets: it is not said which one to cut by",
                hint="give 'error' or 'drop', or cut samples in encode_sample",
            )

    @property
    def lengths(self) -> dict[str, Length]:
        """The length of each budget by its name; the only one is called "length"."""
        return dict(self.length) if isinstance(self.length, Mapping) else {"length": self.length}

    @property
    def capacities(self) -> tuple[int, ...]:
        """The capacity of each budget, in the order of `lengths`."""
        if isinstance(self.capacity, Mapping):
            return tuple(self.capacity[name] for name in self.lengths)
        return (self.capacity,)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that say the lengths; None where a function does, so that samples must be read to be planned."""
        names = tuple(length for length in self.lengths.values() if isinstance(length, str))
        return names if len(names) == len(self.lengths) else None

    def config(self) -> dict[str, Any]:
        """JSON for the recipe's tier of the fingerprint. Functions go by name."""
        lengths = {name: length if isinstance(length, str) else _name(length) for name, length in self.lengths.items()}
        return {
            "method": self.method,
            "lengths": lengths,
            "capacities": list(self.capacities),
            "window": self.window,
            "too_long": self.too_long,
        }


def _capacities(lengths: Mapping[str, Any], capacities: Mapping[str, int]) -> dict[str, int]:
    if not lengths or lengths.keys() != capacities.keys():
        raise UsageError(
            f"packing has lengths for {', '.join(lengths) or 'nothing'}, and capacities for "
            f"{', '.join(capacities) or 'nothing'}",
            hint="name the same budgets in both",
        )
    return {name: _least_one(f"the capacity of {name!r}", capacities[name]) for name in lengths}


def _least_one(name: str, value: Any) -> int:
    number = whole(name, value)
    if number < 1:
        raise UsageError(f"{name} is {number}", hint="give 1 or more")
    return number


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name} of packing is {value!r}", hint=f"give one of {', '.join(known)}")


def _name(function: Any) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
