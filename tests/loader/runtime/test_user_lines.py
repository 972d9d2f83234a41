"""Warnings and causes name lines of the user's code, and none of wdsctl's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import make_training_loader, save_state_after
from wdsctl.loader.runtime.user_lines import find_raising_line


def test_warning_of_restored_state_names_line_that_restores(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 20)
    state = save_state_after(make_training_loader(path, encoder=Raw()), 1)
    other = make_training_loader(path, encoder=Raw(), batch_size=3)

    for restore in (other.load_state_dict, other.restore_state_rank, other.restore_state_global):
        with pytest.warns(UserWarning, match="batch size") as warned:
            restore(state)
        assert warned[0].filename == __file__


def test_error_without_code_of_user_has_no_line() -> None:
    assert find_raising_line(ValueError("never raised")) == ""
