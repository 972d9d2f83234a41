from __future__ import annotations

import pytest

from wdsctl.core.dataset.config import parse_config
from wdsctl.core.errors import DatasetError

HEAD = "version: 1\nsample_type: TextSample\nfield_map: {text: txt}\n"


@pytest.mark.parametrize("name", ["../../x", "a/b", r"a\e[31mb", r"a\nb", r"a\0", r"\x9b31m"])
def test_invalid_split_name_is_refused(name: str) -> None:
    for entry in (f'shares: {{"{name}": 1}}', f'patterns: {{"{name}": [a.tar]}}'):
        with pytest.raises(DatasetError, match="is not a valid split name"):
            parse_config(f"{HEAD}split: {{{entry}}}\n", "dataset.yaml")


@pytest.mark.parametrize("name", ["held out", "проба", "a:b"])
def test_split_names_of_other_tools_are_accepted(name: str) -> None:
    assert parse_config(f'{HEAD}split: {{shares: {{"{name}": 1}}}}\n', "dataset.yaml").split is not None


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 10**40])
def test_seed_beyond_64_bits_is_refused(seed: int) -> None:
    with pytest.raises(DatasetError, match="64 bits"):
        parse_config(f"{HEAD}split: {{shares: {{a: 1}}, seed: {seed}}}\n", "dataset.yaml")
