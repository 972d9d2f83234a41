from __future__ import annotations

from typing import Any

import pytest
import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.batching.columns import stack_tensors
from wdsctl.loader.decoding.memory import BatchMemory


def image(height: int, width: int, fill: int = 1) -> torch.Tensor:
    """An image as decoders return it: shape is channels first, memory is channels last."""
    return torch.full((height, width, 3), fill, dtype=torch.uint8).movedim(-1, 0)


def test_stack_tensors_of_equal_shape_matches_torch_stack() -> None:
    tensors = [torch.arange(6).reshape(2, 3) + i for i in range(4)]

    assert torch.equal(stack_tensors(tensors), torch.stack(tensors))
    assert stack_tensors(tensors).is_contiguous()


def test_stack_tensors_pads_smaller_tensors_with_zeros_at_end() -> None:
    batch = stack_tensors([torch.ones(2, 1), torch.ones(1, 3)])

    assert batch.tolist() == [[[1, 0, 0], [1, 0, 0]], [[1, 1, 1], [0, 0, 0]]]


def test_stack_tensors_of_scalars_is_vector() -> None:
    assert stack_tensors([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]


@pytest.mark.parametrize("sizes", [[(4, 6), (4, 6)], [(4, 6), (5, 2)]])
def test_stacked_images_are_channels_last_with_or_without_padding(sizes: list[tuple[int, int]]) -> None:
    images = [image(*size, fill=i + 1) for i, size in enumerate(sizes)]

    batch = stack_tensors(images)

    assert batch.is_contiguous(memory_format=torch.channels_last)
    for i, (height, width) in enumerate(sizes):
        assert torch.equal(batch[i, :, :height, :width], images[i])
        assert batch[i].sum() == images[i].sum()


def test_stack_tensors_copies_without_batch_memory() -> None:
    tensors = [image(4, 6), image(4, 6)]
    batch = stack_tensors(tensors)

    tensors[0].zero_()

    assert bool((batch == 1).all())


def test_stack_tensors_reuses_batch_memory_without_copy() -> None:
    memory = BatchMemory(torch.uint8)
    for _ in range(2):
        memory.begin(3)
        images = [memory.take((4, 6, 3))[1].fill_(i) for i in range(3)]

    batch = stack_tensors(images, memories=[BatchMemory(torch.uint8), memory])

    assert batch.data_ptr() == images[0].data_ptr()
    assert torch.equal(batch, stack_tensors(images))


def test_stack_tensors_keeps_gradients() -> None:
    weights = torch.ones(3, requires_grad=True)

    stack_tensors([weights * 2, weights * 3]).sum().backward()  # type: ignore[no-untyped-call]

    assert weights.grad is not None
    assert weights.grad.tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (torch.zeros(2, 3), "different numbers of dimensions: 1 and 2"),
        (torch.zeros(3, dtype=torch.int64), "different dtypes: torch.float32 and torch.int64"),
        (torch.zeros(3, device="meta"), "different devices: cpu and meta"),
    ],
)
def test_stack_tensors_error_names_field_of_different_tensors(odd: torch.Tensor, message: str) -> None:
    with pytest.raises(LoaderError, match=message) as raised:
        stack_tensors([torch.zeros(3), odd], field="tokens")

    assert (raised.value.code, raised.value.where) == ("WDS506", "field 'tokens'")


class TensorSubclass(torch.Tensor):
    """A tensor subclass, which may carry more than its values."""


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: torch.zeros(1 << 19).as_subclass(TensorSubclass), id="a subclass"),
        pytest.param(lambda: torch.zeros(1 << 19, requires_grad=True), id="with a gradient"),
        pytest.param(
            lambda: torch.quantize_per_tensor(torch.zeros(1 << 21), 0.1, 0, torch.quint8),
            id="quantised",
            marks=pytest.mark.filterwarnings("ignore:.*quantized:UserWarning"),
        ),
        pytest.param(lambda: torch.zeros(1 << 19, dtype=torch.complex64).conj(), id="a conjugate"),
        pytest.param(lambda: torch.zeros(0, 5), id="nothing"),
    ],
)
def test_stack_tensors_of_special_kinds_matches_torch_stack(make: Any) -> None:
    actual, expected = stack_tensors([make(), make()]), torch.stack([make(), make()])

    assert (type(actual), actual.dtype, actual.shape) == (type(expected), expected.dtype, expected.shape)
    assert (actual.requires_grad, actual.is_quantized) == (expected.requires_grad, expected.is_quantized)
    assert torch.equal(actual, expected)


@pytest.mark.filterwarnings("ignore")  # of torch, about sparse tensors
def test_special_tensors_that_torch_cannot_stack_are_refused() -> None:
    eye, nested = torch.eye(2), torch.nested.nested_tensor
    blocks = eye.to_sparse(layout=torch.sparse_bsr, blocksize=(1, 1))
    for tensors, reason in (
        ([eye, eye.to_sparse()], "have different layouts: torch.strided and torch.sparse_coo"),
        ([eye.to_sparse(), torch.eye(3).to_sparse()], "are sparse, and have different sizes"),
        ([eye.to_sparse(layout=torch.sparse_csc)] * 2, "have the layout torch.sparse_csc"),
        ([blocks] * 2, "have the layout torch.sparse_bsr"),
        ([nested([torch.ones(2)])] * 2, "are nested"),
        ([nested([torch.ones(2)], layout=torch.jagged)] * 2, "are nested"),
    ):
        with pytest.raises(LoaderError, match=reason) as raised:
            stack_tensors(tensors, field="x")
        assert raised.value.code == "WDS506"


def test_equal_sparse_tensors_are_stacked() -> None:
    assert torch.equal(stack_tensors([torch.eye(2).to_sparse()] * 3).to_dense(), torch.eye(2).expand(3, 2, 2))
