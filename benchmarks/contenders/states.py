"""Sizes and costs of states, and how soon a resumed training has its first batch.

    python -m benchmarks.contenders.states --shape plain|blend|packed --sources N

64,000 tiny samples from N datasets, batches of 32, 8 lanes. `plain` and `blend` override nothing; `packed` packs 64 at
a time by a hook and groups packs by how many samples they have. States are saved at 1 %, 50 % and 99 % of an epoch;
each is resumed in loaders of its own, beside cold starts, and must go on with the very next batch. One JSON line with
the medians. `resume_share`: the slowest resumption over what is allowed, the median cold start, and where a hook packs,
the time that the samples of its buffer and of its groups take as well, which are made again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Any

from benchmarks.many_sources import SAMPLES, ensure_sources
from wdsctl.loader import Blender, DefaultTaskEncoder, Loader, WorkerConfig, get_savable_loader, get_train_dataset

_BATCH, _BUFFER, _PACK, _LANES = 32, 64, 4, 8
_OPENINGS, _SAVES = 9, 100
_PLACES = {"1": 0.01, "50": 0.5, "99": 0.99}


class _Raw(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = None


@dataclass(slots=True)
class Pack:
    __key__: str
    __restore_key__: tuple[Any, ...]
    __sources__: tuple[Any, ...]
    texts: list[bytes]


class _Packed(_Raw):
    """Packs of two sizes, and batches of packs of one size."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        odd = [sample for sample in samples if len(sample.caption) % 2]
        even = [sample for sample in samples if not len(sample.caption) % 2]
        sizes = ((odd, _PACK), (even, 2 * _PACK))
        return [kind[at : at + size] for kind, size in sizes for at in range(0, len(kind), size)]

    def pack_selected_samples(self, samples: list[Any]) -> Pack:
        sources = tuple(source for sample in samples for source in sample.__sources__)
        return Pack(samples[0].__key__, (), sources, [sample.caption for sample in samples])

    def batch_group_criterion(self, sample: Pack) -> tuple[int, int | None]:
        return len(sample.texts), None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=("plain", "blend", "packed"), required=True)
    parser.add_argument("--sources", type=int, required=True)
    given = parser.parse_args()
    roots = [str(root) for root in ensure_sources(given.sources)]
    encoder = _Packed() if given.shape == "packed" else _Raw()
    dataset = get_train_dataset(
        roots[0] if given.sources == 1 else Blender([(root, 1) for root in roots]),
        batch_size=_BATCH,
        task_encoder=encoder,
        packing_buffer_size=_BUFFER if given.shape == "packed" else None,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        lanes=_LANES,
    )
    loader = get_savable_loader(dataset)
    # What Python imports when it first runs a loader is no work of the loader's.
    next(iter(loader))
    states = _states(loader)
    saving = _median(lambda: _seconds(loader.state_dict), _SAVES)
    cold = _median(lambda: _begun(dataset, None), _OPENINGS)
    resumed = {
        place: _median(lambda state=state, key=key: _begun(dataset, state, key), _OPENINGS)  # type: ignore[misc]
        for place, (state, key) in states.items()
    }
    sample = _sample_seconds(loader) if given.shape == "packed" else 0.0
    allowed = {place: cold + sample * (_BUFFER + _most_waiting(state)) for place, (state, _) in states.items()}
    sizes = {place: len(json.dumps(state)) for place, (state, _) in states.items()}
    shares = {place: sizes[place] / budget(state, given.sources) for place, (state, _) in states.items()}
    figures = {f"resumed_{place}_seconds": seconds for place, seconds in resumed.items()}
    print(
        json.dumps(
            {
                "state_bytes": max(sizes.values()),
                "budget_share": max(shares.values()),
                "state_seconds": saving,
                "cold_seconds": cold,
                **figures,
                "resume_share": max(resumed[place] / allowed[place] for place in resumed),
            }
        )
    )


def budget(state: dict[str, Any], sources: int) -> int:
    """Bytes that a state may have: 1 KB, 256 a lane, 16 a source, 8 a pending position."""
    return 1024 + 256 * len(state["lanes"]) + 16 * sources + 8 * sum(map(_pending, state["cursors"].values()))


def _pending(cursor: dict[str, Any]) -> int:
    """Samples that wait in the groups of a lane."""
    waiting = cursor["stream"]["of"]
    addresses = waiting["waiting"] if isinstance(waiting, dict) and "waiting" in waiting else []
    return sum(len(address["of"]) if isinstance(address, dict) else 1 for address in addresses)


def _states(loader: Loader) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """By place: a state there, and the keys of the batch that comes next."""
    found, seen, batches = {}, 0, iter(loader)
    for place, share in _PLACES.items():
        while seen < share * SAMPLES:
            seen += _samples(next(batches))
        state = json.loads(json.dumps(loader.save_state_rank()))
        batch = next(batches)
        seen += _samples(batch)
        found[place] = state, list(batch.__key__)
    return found


def _samples(batch: Any) -> int:
    texts = getattr(batch, "texts", None)
    return len(batch.__key__) if texts is None else sum(map(len, texts))


def _begun(dataset: Any, state: Any, key: list[str] | None = None) -> float:
    """Seconds from the arguments to the first batch, which must be the right one."""
    begun = time.perf_counter()
    loader = get_savable_loader(dataset)
    if state is not None:
        loader.restore_state_rank(state)
    batch = next(iter(loader))
    seconds = time.perf_counter() - begun
    if key is not None and list(batch.__key__) != key:
        raise SystemExit("a resumed training went on with another batch")
    return seconds


def _sample_seconds(loader: Loader) -> float:
    """What a sample takes, at the rate of this very stream."""
    begun, samples = time.perf_counter(), 0
    for batch in islice(loader, 200):
        samples += _samples(batch)
    return (time.perf_counter() - begun) / samples


def _most_waiting(state: dict[str, Any]) -> int:
    return max(map(_pending, state["cursors"].values()))


def _median(measured: Callable[[], float], times: int) -> float:
    return median(measured() for _ in range(times))


def _seconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
