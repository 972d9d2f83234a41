from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.catalog.ledger import unpack_record_keys
from wdsctl.core.prepare.plan import plan_shards, planned_record
from wdsctl.core.samples.naming import RawPart, RawSample

keys = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.lists(keys, min_size=1, max_size=20, unique=True))
def test_planned_record_keeps_keys(names: list[str]) -> None:
    samples = [RawSample(name, (RawPart("txt", 1, 1),)) for name in names]

    records = [planned_record(shard, samples) for shard in plan_shards(samples, 7, 1 << 30, "{index}.tar")]

    assert [key for record in records for key in unpack_record_keys(record)] == names
    assert sum(record.samples for record in records) == len(names)
    assert {record.state for record in records} == {"planned"}
