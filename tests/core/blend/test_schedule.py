from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from wdsctl.core.blend.schedule import WeightChange, parse_schedule
from wdsctl.core.blend.yaml_tree import from_mapping
from wdsctl.core.errors import DatasetError

NAMES = ["web", "", "code"]
OWN = [Fraction(3), Fraction(2), Fraction(1)]


def parse(schedule: Any, own: list[Fraction] = OWN) -> list[WeightChange]:
    node = from_mapping({"schedule": schedule}, "mapping")
    return parse_schedule(node.value["schedule"], node.location_of("schedule"), NAMES, own)


def test_schedule_keeps_weights_of_unnamed_entries() -> None:
    assert parse([{"step": 0, "weights": {"web": 5}}, {"step": 10, "weights": {"1": 0, "code": "1/2"}}]) == [
        WeightChange(0, [Fraction(5), Fraction(2), Fraction(1)]),
        WeightChange(10, [Fraction(5), Fraction(0), Fraction(1, 2)]),
    ]


def test_schedule_starts_with_weights_of_entries() -> None:
    assert parse([{"step": 10, "weights": [1, 1, 1]}]) == [WeightChange(0, OWN), WeightChange(10, [Fraction(1)] * 3)]


def test_zero_weights_are_allowed_if_schedule_starts_at_0() -> None:
    nothing = [Fraction(0)] * 3

    assert parse([{"step": 0, "weights": {"web": 1}}], nothing) == [WeightChange(0, [Fraction(1), *nothing[1:]])]
    with pytest.raises(DatasetError, match="all weights are 0"):
        parse([{"step": 1, "weights": {"web": 1}}], nothing)


@pytest.mark.parametrize(
    ("schedule", "where", "why"),
    [
        ([], "", "expected a list of steps, found nothing"),
        ({}, "", "expected a list of steps, found nothing"),
        ([5], "[0]", "expected step and weights, found 5"),
        ([{"step": 0}], "[0]", "weights is missing"),
        ([{"weights": [1, 1, 1]}], "[0]", "step is missing"),
        ([{"step": -1, "weights": [1, 1, 1]}], "[0].step", "step: expected a whole number from 0 up"),
        ([{"step": 1.5, "weights": [1, 1, 1]}], "[0].step", "step: expected a whole number from 0 up"),
        (
            [{"step": 0, "weights": [1, 1]}],
            "[0].weights",
            "expected a weight per entry, or names and weights, found 2 of 3",
        ),
        ([{"step": 0, "weights": {}}], "[0].weights", "expected a weight per entry"),
        ([{"step": 0, "weights": {"wbe": 1}}], "[0].weights.wbe", "no entry 'wbe'; did you mean 'web'"),
        ([{"step": 0, "weights": {"3": 1}}], "[0].weights.3", "no entry '3'"),
        ([{"step": 0, "weights": {"": 1}}], "[0].weights.", "no entry ''"),
        ([{"step": 0, "weights": {"web": 1, "0": 2}}], "[0].weights.0", "'web' and '0' name the same entry"),
        ([{"step": 0, "weights": {"web": -1}}], "[0].weights.web", "web: expected a number"),
        ([{"step": 0, "weights": [0, 0, 0]}], "[0].weights", "all weights are 0"),
        ([{"step": 5, "weights": [1, 1, 1]}, {"step": 5, "weights": [1, 1, 2]}], "[1].step", "5 does not come after 5"),
    ],
)
def test_invalid_schedule_is_refused_with_location(schedule: Any, where: str, why: str) -> None:
    with pytest.raises(DatasetError, match=why) as caught:
        parse(schedule)

    assert (caught.value.code, caught.value.where) == ("WDS602", f"mapping.schedule{where}")


def test_schedule_of_many_steps_and_entries_is_refused() -> None:
    """Each step has a weight of each entry, so that time and memory would grow with the square of the file."""
    entries = [Fraction(1)] * 1001
    steps = [{"step": step, "weights": {"web": 1}} for step in range(1000)]
    with pytest.raises(DatasetError, match="1,000 steps for 1,001 entries") as caught:
        parse(steps, entries)
    assert caught.value.code == "WDS602"


def test_unknown_key_of_schedule_step_is_refused() -> None:
    with pytest.raises(DatasetError, match=r"unknown key 'stpe'.*did you mean 'step'"):
        parse([{"stpe": 0, "weights": [1, 1, 1]}])
