from __future__ import annotations

import io
import pickle
from typing import Any

import pytest
import torch

from wdsctl.loader.decoding import parts


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def saved(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore")  # TorchScript is deprecated
@pytest.mark.parametrize("is_old", [False, True])
def test_a_part_that_is_torchscript_is_not_run_by_any_version_of_torch(
    is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Twice()), file)
    loads: list[Any] = []
    if is_old:  # what torch.load did with it before 2.6
        monkeypatch.setattr(torch, "load", lambda *given, **_: loads.append(given))

    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="TorchScript"):
        parts.decode_torch(file.getvalue(), runs_scripts=is_old)
    assert loads == []


def test_tensors_are_taken_by_every_version() -> None:
    data = saved({"a": torch.arange(3)})

    assert parts.decode_torch(data, runs_scripts=True)["a"].tolist() == [0, 1, 2]


def test_a_byte_order_mark_is_no_part_of_a_text() -> None:
    assert parts.decode_text("\ufeffa cät".encode()) == "a cät"
    assert parts.decode_text("a\ufeff".encode()) == "a\ufeff"
