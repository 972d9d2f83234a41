from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, tree
from tests.core.validate.test_quarantine import CONTENT, a_broken_dataset, sizes
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import read_quarantine
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.core.validate.blend import release_blend, validate_blend


def test_release_blend_releases_quarantined_samples_of_all_its_datasets(tmp_path: Path) -> None:
    one, other = a_broken_dataset(tmp_path / "one"), a_broken_dataset(tmp_path / "other")
    sound = a_dataset(tmp_path / "sound", {"0.tar": {"0.json": b"{}"}})
    index(sound)
    blend = tmp_path / "b.yaml"
    blend.write_text(
        "splits:\n  train:\n    blend: [{weight: 1, path: one}, {weight: 1, path: sound}]\n  val: {path: other}\n"
    )
    validate_blend(str(blend), CONTENT)
    before = tree(sound)
    assert (sizes(one), sizes(other)) == ({"train": 27}, {"train": 27})
    with pytest.raises(UsageError, match="nope: no shard in quarantine matches"):
        release_blend(str(blend), shards=["1*", "nope"])
    some = release_blend(str(blend), shards=["1*"])
    assert (some.released, sizes(one), sizes(other)) == (2, {"train": 28}, {"train": 28})
    rest = release_blend(str(blend))

    assert rest.splits == {f"{one}: train": 30, f"{other}: train": 30}
    assert (rest.root, rest.released) == (str(blend), 4)
    assert tree(sound) == before
    for root in (one, other):
        with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
            assert read_quarantine(ledger) == []
    assert release_blend(str(blend)).released == 0
