"""Files of torch.save are read without torch: containers, text and numbers come out, and nothing of them is run."""

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


def saved(folder: Path, value: Any, **options: Any) -> str:
    path = str(folder / "file.pt")
    torch.save(value, path, **options)
    return path


def a_zip(folder: Path, data: bytes) -> str:
    """A file of torch.save with this pickle in it."""
    path = str(folder / "made.pt")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
    return path


def refusal(path: str) -> InputError:
    with pytest.raises(InputError) as raised:
        read_torch_file(path)
    assert (raised.value.code, raised.value.where) == ("WDS521", path)
    assert raised.value.hint
    return raised.value


def test_containers_text_and_numbers_come_out_as_they_went_in(tmp_path: Path) -> None:
    value = {
        "list": [1, 2.5, "ü", None, True, 1 << 70, -3],
        "tuple": (1, (2,)),
        "bytes": b"\0\xff",
        "ordered": OrderedDict(a=1, b=2),
        "set": {"x"},
        7: {},
    }
    for protocol in (2, 4):
        assert read_torch_file(saved(tmp_path, value, pickle_protocol=protocol)) == value


def test_a_state_comes_out_as_it_went_in_and_torch_reads_it_safely_too(tmp_path: Path) -> None:
    states = job(2)
    path = saved(tmp_path, {"dataloader_state_dict": states})

    assert is_torch_file(path)
    assert read_torch_file(path) == {"dataloader_state_dict": states}
    assert torch.load(path, weights_only=True) == {"dataloader_state_dict": states}


def test_tensors_are_passed_over(tmp_path: Path) -> None:
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

    found = read_torch_file(saved(tmp_path, value))

    assert found["step"] == 12
    assert list(found["model"]) == ["weight", "bias"]
    assert all(
        isinstance(each, TensorStub) for each in [*found["model"].values(), *found["tensors"], found["parameter"]]
    )
    assert found["optimizer"]["param_groups"][0]["lr"] == 1e-3


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def test_code_in_a_file_is_never_run_and_is_called_by_its_name(tmp_path: Path) -> None:
    path = saved(tmp_path, {"state": Evil(tmp_path / "was-here")})

    assert "posix.system" in refusal(path).message
    assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize("value", [np.arange(3), Path("x"), print, range(3), torch.nn.Linear(1, 1)])
def test_what_is_made_by_code_is_refused(value: Any, tmp_path: Path) -> None:
    assert "loading that would run code" in refusal(saved(tmp_path, [value])).message


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
def test_no_other_name_means_anything(name: str, tmp_path: Path) -> None:
    data = b"\x80\x02c" + name.replace(" ", "\n").encode() + b"\n."

    assert f"a {name.replace(' ', '.')}, and loading" in refusal(a_zip(tmp_path, data)).message


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
def test_a_damaged_pickle_says_so(data: bytes, tmp_path: Path) -> None:
    assert "damaged" in refusal(a_zip(tmp_path, data)).message


def test_a_truncated_file_says_so(tmp_path: Path) -> None:
    path = saved(tmp_path, {"tensor": torch.ones(1000), "state": job(1)[0]})
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: len(data) // 2])

    assert not is_torch_file(path)
    assert "damaged" in refusal(path).message


def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "other.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", b"hello")

    assert "no data.pkl" in refusal(path).message
