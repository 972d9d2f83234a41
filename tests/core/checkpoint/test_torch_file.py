"""read_torch_file reads torch.save files without torch and without running code: containers, text and numbers."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.core.job_states import job
from wdsctl.core.checkpoint.torch_file import TensorStub, is_torch_file, read_torch_file
from wdsctl.core.errors import InputError


def read_torch_path(path: str) -> Any:
    with open(path, "rb") as file:
        return read_torch_file(file, path)


def is_torch_path(path: str) -> bool:
    with open(path, "rb") as file:
        return is_torch_file(file)


def save(folder: Path, value: Any, **options: Any) -> str:
    path = str(folder / "file.pt")
    torch.save(value, path, **options)
    return path


def a_zip(folder: Path, data: bytes) -> str:
    """A torch.save file that contains this pickle."""
    path = str(folder / "made.pt")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
    return path


def get_error(path: str) -> InputError:
    with pytest.raises(InputError) as raised:
        read_torch_path(path)
    assert (raised.value.code, raised.value.where) == ("WDS521", path)
    assert raised.value.hint
    return raised.value


def test_containers_text_and_numbers_round_trip(tmp_path: Path) -> None:
    value = {
        "list": [1, 2.5, "ü", None, True, 1 << 70, -3],
        "tuple": (1, (2,)),
        "bytes": b"\0\xff",
        "ordered": OrderedDict(a=1, b=2),
        "set": {"x"},
        7: {},
    }
    for protocol in (2, 4):
        assert read_torch_path(save(tmp_path, value, pickle_protocol=protocol)) == value


def test_state_round_trips_and_loads_with_weights_only(tmp_path: Path) -> None:
    states = job(2)
    path = save(tmp_path, {"dataloader_state_dict": states})

    assert is_torch_path(path)
    assert read_torch_path(path) == {"dataloader_state_dict": states}
    assert torch.load(path, weights_only=True) == {"dataloader_state_dict": states}


def test_tensors_are_read_as_stubs(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    kinds = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8, torch.complex64, torch.float8_e5m2)
    value = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameter": torch.nn.Parameter(torch.ones(1)),
        "tensors": [torch.zeros(2).to(kind) for kind in kinds],
        "others": [torch.Size([1, 2]), torch.device("cpu"), torch.float16],
        "rng": torch.get_rng_state(),
        "step": 12,
    }

    restored = read_torch_path(save(tmp_path, value))

    assert restored["step"] == 12
    assert list(restored["model"]) == ["weight", "bias"]
    assert all(
        isinstance(each, TensorStub)
        for each in [*restored["model"].values(), *restored["tensors"], restored["parameter"]]
    )
    assert restored["optimizer"]["param_groups"][0]["lr"] == 1e-3


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def test_code_in_pickle_is_refused_by_name_and_never_run(tmp_path: Path) -> None:
    path = save(tmp_path, {"state": Evil(tmp_path / "was-here")})

    assert "posix.system" in get_error(path).message
    assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize("value", [np.arange(3), Path("x"), print, range(3), torch.nn.Linear(1, 1)])
def test_values_that_need_code_are_refused(value: Any, tmp_path: Path) -> None:
    assert "loading that would run code" in get_error(save(tmp_path, [value])).message


@pytest.mark.parametrize(
    "name",
    [
        "builtins eval",
        "builtins getattr",
        "torch load",
        "torch.hub load",
        "os system",
        "collections OrderedDict.fromkeys",
    ],
)
def test_names_outside_allow_list_are_refused(name: str, tmp_path: Path) -> None:
    data = b"\x80\x02c" + name.replace(" ", "\n").encode() + b"\n."

    assert f"a {name.replace(' ', '.')}, and loading" in get_error(a_zip(tmp_path, data)).message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x02",
        b"no pickle",
        pickle.dumps([1] * 100)[:-20],
        b"\x80\x02K\x01K\x02R.",
        b"\x80\x02ccollections\nOrderedDict\n(K\x01tR.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x02K\x01ccollections\nOrderedDict\nb.",
        b"\x80\x02ctorch\nSize\nK\x01K\x02s.",
        b"\x80\x02h\x07.",
    ],
)
def test_damaged_pickle_is_refused(data: bytes, tmp_path: Path) -> None:
    assert "damaged" in get_error(a_zip(tmp_path, data)).message


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, {"tensor": torch.ones(1000), "state": job(1)[0]})
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: len(data) // 2])

    assert not is_torch_path(path)
    assert "damaged" in get_error(path).message


def test_zip_without_pickle_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "other.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", b"hello")

    assert "no data.pkl" in get_error(path).message
