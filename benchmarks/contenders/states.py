"""Sizes and costs of states, and how soon a resumed training has its first batch.

    python -m benchmarks.contenders.states --shape plain|blend|packed --sources N

64,000 tiny samples from N datasets, batches of 32, 8 lanes. `plain` and `blend` override nothing; `packed` packs 64 at
a time by a hook and groups packs by how many samples they have. States are saved at 1 %, 50 % and 99 % of an epoch;
each is resumed in loaders of its own, beside cold starts, and must go on with the very next batch. One JSON line with
the medians.

`budget_share`: the largest state over its budget. A sample is pending once it was picked and until its batch is handed
out, wherever it waits, in a buffer, an open pack or a group: so many are pending as the lanes have picked and no batch
has had. `resume_share`: the slowest resumption over what is allowed, the median cold start, and the time that the
samples take which the lane of the next batch has to make again: those of its buffer, where packs of it are still to
come, and those that wait in its groups, each counted once.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Any, NamedTuple

from benchmarks.many_sources import SAMPLES, ensure_sources
from wdsctl.core.checkpoint.addresses import pending_addresses
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
    first = next(iter(loader))
    saved = _saved(loader, _samples(first))
    saving = _median(lambda: _seconds(loader.state_dict), _SAVES)
    cold, sample, resumed = _openings(dataset, saved, loader)
    allowed = {place: cold + sample * count_rebuilt_samples(each.state) for place, each in saved.items()}
    sizes = {place: len(json.dumps(each.state)) for place, each in saved.items()}
    shares = {place: sizes[place] / budget(_LANES, given.sources, each.pending) for place, each in saved.items()}
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


class Saved(NamedTuple):
    """A state, how many samples were pending, and the keys of the batch that comes next."""

    state: dict[str, Any]
    pending: int
    keys: list[str]


def budget(lanes: int, sources: int, pending: int) -> int:
    """Bytes that a state may have: 1 KB, 256 a lane, 16 a source, 8 a pending position."""
    return 1024 + 256 * lanes + 16 * sources + 8 * pending


def count_rebuilt_samples(state: dict[str, Any]) -> int:
    """Samples that the lane of the next batch has to make again before it goes on."""
    cursor = state["cursors"][str((state["batches_drawn"] - state["first_batch"]) % state["lanes"])]
    again = {address[0] if isinstance(address, list) else address for address in pending_addresses(cursor["stream"])}
    packs = cursor["stream"]["upstream"]
    while isinstance(packs, dict) and "packs" not in packs:
        packs = packs["upstream"]
    if isinstance(packs, dict) and (packs["packs"] or packs["emitted"]):
        pick, step = packs["upstream"]
        again |= set(range(pick + (step > 0), cursor["draws"]))
    return len(again)


def _saved(loader: Loader, seen: int) -> dict[str, Saved]:
    """What was saved at each place. `seen`: samples that were handed out before."""
    found, batches = {}, iter(loader)
    for place, share in _PLACES.items():
        while seen < share * SAMPLES:
            seen += _samples(next(batches))
        state = json.loads(json.dumps(loader.save_state_rank()))
        pending = sum(cursor["draws"] for cursor in state["cursors"].values()) - seen
        batch = next(batches)
        seen += _samples(batch)
        found[place] = Saved(state, pending, list(batch.__key__))
    return found


def _samples(batch: Any) -> int:
    texts = getattr(batch, "texts", None)
    return len(batch.__key__) if texts is None else sum(map(len, texts))


def _openings(dataset: Any, saved: dict[str, Saved], loader: Loader) -> tuple[float, float, dict[str, float]]:
    """Seconds of a cold start, of a sample of `loader`, and of resuming at each place, in turns: a machine that slows
    down does so for all."""
    colds, samples = [], []
    resumed: dict[str, list[float]] = {place: [] for place in saved}
    for _ in range(_OPENINGS):
        colds.append(_begun(dataset, None))
        for place, each in saved.items():
            resumed[place].append(_begun(dataset, each.state, each.keys))
        samples.append(_sample_seconds(loader))
    return median(colds), median(samples), {place: median(seconds) for place, seconds in resumed.items()}


def _begun(dataset: Any, state: Any, key: list[str] | None = None) -> float:
    """Seconds from the arguments to the first batch, which must be the right one."""
    # What loaders before this one left behind is none of its work: it would be some 0.2 s in one opening of eight.
    gc.collect()
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
    for batch in islice(loader, 25):
        samples += _samples(batch)
    return (time.perf_counter() - begun) / samples


def _median(measured: Callable[[], float], times: int) -> float:
    return median(measured() for _ in range(times))


def _seconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
