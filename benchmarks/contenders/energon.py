"""megatron-energon: its train dataset with a buffer of 1000 and sequences of 100, as its documentation has it."""

from __future__ import annotations

from megatron.energon import DefaultTaskEncoder, SampleDecoder, WorkerConfig, get_loader, get_train_dataset

from benchmarks.contenders.protocol import BATCH_SIZE, SHUFFLE_SAMPLES, Request, Stream, run


class _Raw(DefaultTaskEncoder):  # type: ignore[misc]  # the base class is untyped here
    decoder = None


class _Decoded(DefaultTaskEncoder):  # type: ignore[misc]  # the same
    decoder = SampleDecoder(image_decode="torchrgb8")


def open_stream(request: Request) -> Stream:
    dataset = get_train_dataset(
        request.data,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=request.workers),
        batch_size=BATCH_SIZE,
        shuffle_buffer_size=SHUFFLE_SAMPLES,
        max_samples_per_sequence=100,
        task_encoder=_Raw() if request.is_raw else _Decoded(),
        repeat=not request.once,
    )
    for batch in get_loader(dataset):
        yield batch.image, batch.caption


if __name__ == "__main__":
    run(open_stream)
