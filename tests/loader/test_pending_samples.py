"""Samples pending in buffers, packs and groups: small in a state, and encoded again only once."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.mixed import Everything, a_blend, everything
from tests.loader.running import json_round_trip
from wdsctl.core.checkpoint.digests import add_digests
from wdsctl.core.checkpoint.summary import summarize_state
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import Loader, get_loader


class Counting(Everything):
    """Counts how often each sample is encoded, and how often each pack is made."""

    def __init__(self) -> None:
        self.encoded: Counter[Any] = Counter()
        self.packed: Counter[Any] = Counter()

    def preencode_sample(self, sample: Any) -> Any:
        self.encoded[sample["__restore_key__"]] += 1
        yield from super().preencode_sample(sample)

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        self.packed[tuple(each["__restore_key__"] for each in samples)] += 1
        return super().pack_selected_samples(samples)


@pytest.fixture(scope="module")
def blend(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root: Path = tmp_path_factory.mktemp("data")
    return a_blend(root)


def loader_of(blend: Any, encoder: Any = None, **options: Any) -> Loader:
    return get_loader(everything(blend, task_encoder=encoder or Everything(), **options))


@pytest.mark.parametrize("steps", [40, 57, 90, 133, 201])
def test_restore_encodes_every_pending_sample_and_pack_once(blend: Any, steps: int) -> None:
    loader = loader_of(blend, Counting(), batch_size=6)
    next(islice(loader, steps - 1, None))
    state = json_round_trip(loader.state_dict())
    encoder = Counting()
    resumed = loader_of(blend, encoder, batch_size=6)
    resumed.load_state_dict(state)

    rest = list(islice(resumed, 24))  # three batches of every lane

    assert [batch["__key__"] for batch in rest] == [batch["__key__"] for batch in islice(loader, 24)]
    assert summarize_state(state).pending > 5
    assert set(encoder.encoded.values()) == {1}
    assert set(encoder.packed.values()) == {1}


def test_state_stays_within_its_byte_budget_at_every_step(blend: Any) -> None:
    loader = loader_of(blend, batch_size=9)

    for _ in islice(loader, 150):
        state = json_round_trip(loader.state_dict())
        assert len(json.dumps(state)) <= summarize_state(state).budget_bytes


@pytest.mark.parametrize("damage", ["g", "?", "D"])
def test_damaged_pending_samples_in_state_are_refused(blend: Any, damage: str) -> None:
    loader = loader_of(blend)
    next(islice(loader, 30, None))
    state = json_round_trip(loader.state_dict())
    for cursor in state["cursors"].values():
        cursor["stream"]["upstream"]["waiting"] += damage
    resumed = loader_of(blend)
    resumed.load_state_dict(add_digests(state))

    with pytest.raises(StateMismatch, match="the state of a lane is damaged") as raised:
        next(iter(resumed))

    assert raised.value.code == "WDS502"
