from __future__ import annotations

import torch

from wdsctl.loader.decoding import BatchMemory, SampleDecoder

from .pictures import a_jpeg


def images(
    memory: BatchMemory, n: int, *, of: int | None = None, shape: tuple[int, ...] = (4, 6, 3)
) -> list[torch.Tensor]:
    """A batch of n images, the i-th filled with i."""
    memory.begin(n if of is None else of)
    taken = [memory.take(shape) for _ in range(n)]
    for i, (array, _) in enumerate(taken):
        array[:] = i
    return [image for _, image in taken]


def a_memory() -> BatchMemory:
    """One that has seen an image of the usual shape."""
    memory = BatchMemory(torch.uint8)
    images(memory, 1)
    return memory


def test_images_of_one_size_are_the_batch_without_a_copy() -> None:
    memory = a_memory()
    taken = images(memory, 3)

    batch = memory.batch_tensor(taken)

    assert batch is not None
    assert batch.shape == (3, 3, 4, 6)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(batch, torch.stack(taken))
    assert batch.data_ptr() == taken[0].data_ptr()


def test_a_last_batch_may_be_short() -> None:
    memory = a_memory()
    taken = images(memory, 2, of=5)

    batch = memory.batch_tensor(taken)

    assert batch is not None
    assert batch.shape[0] == 2


def test_gray_images_have_no_channels() -> None:
    memory = BatchMemory(torch.float32)
    images(memory, 1, shape=(4, 6))

    batch = memory.batch_tensor(images(memory, 2, shape=(4, 6)))

    assert batch is not None
    assert (batch.shape, batch.dtype) == ((2, 4, 6), torch.float32)


def test_a_batch_that_is_kept_never_changes() -> None:
    memory = a_memory()
    kept = memory.batch_tensor(images(memory, 3))
    assert kept is not None
    before = kept.clone()

    for image in images(memory, 3):
        image.fill_(99)

    assert torch.equal(kept, before)


def test_images_of_several_sizes_are_no_whole() -> None:
    memory = a_memory()
    memory.begin(2)
    taken = [memory.take((4, 6, 3))[1], memory.take((5, 5, 3))[1]]

    assert memory.batch_tensor(taken) is None


def test_an_image_that_a_hook_replaced_left_out_or_reordered_is_no_whole() -> None:
    memory = a_memory()
    taken = images(memory, 3)

    assert memory.batch_tensor([*taken[:2], taken[2].clone()]) is None
    assert memory.batch_tensor(taken[:2]) is None
    assert memory.batch_tensor([taken[1], taken[0], taken[2]]) is None
    assert memory.batch_tensor([*taken[:2], taken[2].flip(1)]) is None
    assert memory.batch_tensor([*taken[:2], taken[2].view(torch.int8)]) is None
    assert memory.batch_tensor(taken) is not None


def test_an_image_that_a_hook_changed_in_place_is_in_the_batch_as_changed() -> None:
    memory = a_memory()
    taken = images(memory, 2)
    taken[1].add_(100)

    batch = memory.batch_tensor(taken)

    assert batch is not None
    assert bool((batch[1] == 101).all())


def test_an_image_whose_shape_a_hook_changed_in_place_is_no_whole() -> None:
    memory = a_memory()
    taken = images(memory, 2)
    taken[0].unsqueeze_(0)

    assert memory.batch_tensor(taken) is None


def test_images_of_an_earlier_batch_are_no_whole() -> None:
    memory = a_memory()
    earlier = images(memory, 2)
    images(memory, 2)

    assert memory.batch_tensor(earlier) is None


def test_more_images_than_were_announced_are_decoded_and_are_no_whole() -> None:
    memory = a_memory()
    taken = images(memory, 3, of=2)

    assert [int(image[0, 0, 0]) for image in taken] == [0, 1, 2]
    assert memory.batch_tensor(taken) is None


def test_where_sizes_vary_no_block_is_made_for_one_image() -> None:
    memory = BatchMemory(torch.uint8)
    memory.begin(1_000)
    memory.take((4, 6, 3))
    memory.begin(1_000)

    _, image = memory.take((8, 8, 3))

    assert image.untyped_storage().nbytes() == 8 * 8 * 3


def test_a_decoder_fills_a_memory_with_what_it_decodes_without_one() -> None:
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
