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


def save(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore")  # TorchScript is deprecated
@pytest.mark.parametrize("is_old", [False, True])
def test_decode_torch_refuses_torchscript_in_any_torch_version(is_old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Twice()), file)
    loads: list[Any] = []
    if is_old:  # torch.load ran TorchScript before 2.6
        monkeypatch.setattr(torch, "load", lambda *arguments, **_: loads.append(arguments))

    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="TorchScript"):
        parts.decode_torch(file.getvalue(), runs_scripts=is_old)
    assert loads == []


def test_decode_torch_reads_tensors_in_old_torch_versions() -> None:
    data = save({"a": torch.arange(3)})

    assert parts.decode_torch(data, runs_scripts=True)["a"].tolist() == [0, 1, 2]


def test_decode_text_drops_leading_byte_order_mark() -> None:
    assert parts.decode_text("\ufeffa cät".encode()) == "a cät"
    assert parts.decode_text("a\ufeff".encode()) == "a\ufeff"
