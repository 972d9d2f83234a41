from __future__ import annotations

import torch

from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.memory import BatchMemory

from .pictures import a_jpeg


def images(
    memory: BatchMemory, n: int, *, announced: int | None = None, shape: tuple[int, ...] = (4, 6, 3)
) -> list[torch.Tensor]:
    """Takes n images of a batch and fills the i-th with i."""
    memory.begin(n if announced is None else announced)
    tensors = [memory.take(shape) for _ in range(n)]
    for i, (array, _) in enumerate(tensors):
        array[:] = i
    return [image for _, image in tensors]


def a_memory() -> BatchMemory:
    """A BatchMemory that has seen one image of the default shape."""
    memory = BatchMemory(torch.uint8)
    images(memory, 1)
    return memory


def test_batch_tensor_of_equal_images_is_zero_copy() -> None:
    memory = a_memory()
    tensors = images(memory, 3)

    batch = memory.batch_tensor(tensors)

    assert batch is not None
    assert batch.shape == (3, 3, 4, 6)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(batch, torch.stack(tensors))
    assert batch.data_ptr() == tensors[0].data_ptr()


def test_batch_tensor_of_short_last_batch() -> None:
    memory = a_memory()
    tensors = images(memory, 2, announced=5)

    batch = memory.batch_tensor(tensors)

    assert batch is not None
    assert batch.shape[0] == 2


def test_batch_tensor_of_gray_images_has_no_channels() -> None:
    memory = BatchMemory(torch.float32)
    images(memory, 1, shape=(4, 6))

    batch = memory.batch_tensor(images(memory, 2, shape=(4, 6)))

    assert batch is not None
    assert (batch.shape, batch.dtype) == ((2, 4, 6), torch.float32)


def test_earlier_batch_is_not_overwritten() -> None:
    memory = a_memory()
    batch = memory.batch_tensor(images(memory, 3))
    assert batch is not None
    before = batch.clone()

    for image in images(memory, 3):
        image.fill_(99)

    assert torch.equal(batch, before)


def test_batch_tensor_is_none_for_different_sizes() -> None:
    memory = a_memory()
    memory.begin(2)
    tensors = [memory.take((4, 6, 3))[1], memory.take((5, 5, 3))[1]]

    assert memory.batch_tensor(tensors) is None


def test_batch_tensor_is_none_for_replaced_or_reordered_images() -> None:
    memory = a_memory()
    tensors = images(memory, 3)

    assert memory.batch_tensor([*tensors[:2], tensors[2].clone()]) is None
    assert memory.batch_tensor(tensors[:2]) is None
    assert memory.batch_tensor([tensors[1], tensors[0], tensors[2]]) is None
    assert memory.batch_tensor([*tensors[:2], tensors[2].flip(1)]) is None
    assert memory.batch_tensor([*tensors[:2], tensors[2].view(torch.int8)]) is None
    assert memory.batch_tensor(tensors) is not None


def test_batch_tensor_contains_in_place_changes() -> None:
    memory = a_memory()
    tensors = images(memory, 2)
    tensors[1].add_(100)

    batch = memory.batch_tensor(tensors)

    assert batch is not None
    assert bool((batch[1] == 101).all())


def test_batch_tensor_is_none_after_in_place_reshape() -> None:
    memory = a_memory()
    tensors = images(memory, 2)
    tensors[0].unsqueeze_(0)

    assert memory.batch_tensor(tensors) is None


def test_batch_tensor_is_none_for_images_of_earlier_batch() -> None:
    memory = a_memory()
    earlier = images(memory, 2)
    images(memory, 2)

    assert memory.batch_tensor(earlier) is None


def test_batch_tensor_is_none_for_more_images_than_announced() -> None:
    memory = a_memory()
    tensors = images(memory, 3, announced=2)

    assert [int(image[0, 0, 0]) for image in tensors] == [0, 1, 2]
    assert memory.batch_tensor(tensors) is None


def test_take_allocates_single_image_when_sizes_vary() -> None:
    memory = BatchMemory(torch.uint8)
    memory.begin(1_000)
    memory.take((4, 6, 3))
    memory.begin(1_000)

    _, image = memory.take((8, 8, 3))

    assert image.untyped_storage().nbytes() == 8 * 8 * 3


def test_decoding_into_batch_memory_equals_decoding_without() -> None:
    decoder = SampleDecoder("torchrgb8")
    memory = decoder.memory_for("jpg")
    assert memory is not None
    decode = decoder.function_for("jpg", memory)
    data = [a_jpeg(seed=i) for i in range(3)]

    for _ in range(2):
        memory.begin(3)
        decoded = [decode(item) for item in data]

    assert memory.batch_tensor(decoded) is not None
    assert all(torch.equal(image, decoder("jpg", item)) for image, item in zip(decoded, data, strict=True))
