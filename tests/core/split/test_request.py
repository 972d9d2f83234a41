from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from wdsctl.core.dataset.config import parse_config
from wdsctl.core.errors import DatasetError, OptionConflict, UsageError
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split_rules.rule import SPLIT_METHODS

#: Options of each method, and its form in dataset.yaml.
OPTIONS: dict[str, dict[str, Any]] = {
    "shares": {"ratios": "8,2"},
    "patterns": {"pattern": ("train=a.tar",)},
    "keys": {"keys": ("val=val.txt",)},
    "by_value": {"by_value": "json:split"},
}
SECTIONS = {
    "shares": "shares: {train: 8, val: 2}",
    "patterns": "patterns: {train: [a.tar]}",
    "keys": "keys: {val: val.txt}",
    "by_value": "by_value: json:split",
}


@pytest.mark.parametrize("methods", list(combinations(SPLIT_METHODS, 2)))
def test_split_methods_exclude_each_other(methods: tuple[str, str]) -> None:
    one, other = methods
    with pytest.raises(OptionConflict, match="exclude each other"):
        parse_split_request(SplitOptions(**OPTIONS[one], **OPTIONS[other]))
    with pytest.raises(DatasetError, match=f"split: {one} and {other} exclude each other"):
        parse_config(f"sample_type: CrudeSample\nsplit:\n  {SECTIONS[one]}\n  {SECTIONS[other]}\n")


def test_absurd_number_of_folds_is_refused() -> None:
    assert parse_split_request(SplitOptions(folds=1000)).folds == 1000
    with pytest.raises(UsageError, match="the limit is 1,000"):
        parse_split_request(SplitOptions(folds=1001))


@pytest.mark.parametrize("method", SPLIT_METHODS)
def test_options_and_dataset_yaml_give_rules_of_same_kind(method: str) -> None:
    requested = parse_split_request(SplitOptions(**OPTIONS[method])).rule
    authored = parse_config(f"sample_type: CrudeSample\nsplit:\n  {SECTIONS[method]}\n").split

    assert requested is not None
    assert authored is not None
    assert requested.methods == authored.methods == (method,)
    assert requested.kind == authored.kind
