from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path

from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.executors.unit_results import UNIT_FUNCTIONS, UnitFunction, find_unit_function, load_unit_function
from wdsctl.core.samples.naming import RawPart, RawSample
from wdsctl.core.shards.write import WrittenShard
from wdsctl.core.shards.write_job import ShardJob, UnreadableFile
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.core.validate.unit import CheckContext, check_shard

JOB = ShardJob("/out/a.tar", "/raw", (RawSample("k", (RawPart("txt", 3, 5),)),))


def test_every_unit_function_exists() -> None:
    for function in UNIT_FUNCTIONS:
        assert callable(load_unit_function(function))


def test_unknown_function_is_run_in_command_process() -> None:
    assert find_unit_function(len, keeps_results=False) is None


def test_unit_name_depends_on_its_input() -> None:
    name = UnitFunction("wdsctl.core.shards.write_job:run_shard_job").results("").name
    assert name(JOB) == name(JOB._replace())
    others = [JOB._replace(path="/out/b.tar"), JOB._replace(samples=(RawSample("k", (RawPart("txt", 3, 6),)),))]
    assert len({name(JOB), *map(name, others)}) == 3


def test_function_arguments_round_trip_and_change_unit_name() -> None:
    names = []
    for share in (1.0, 0.5):
        context = CheckContext(root="/data", request=ValidateRequest(share=share))
        function = find_unit_function(partial(check_shard, context), keeps_results=False)
        assert function is not None
        facts, pieces = function.encode_arguments()
        decoded = UnitFunction(function.function).decode_arguments(facts, memoryview(b"".join(pieces)))
        assert decoded.arguments == (context,)
        names.append(function.results("").name.args)  # type: ignore[attr-defined]
    assert names[0] != names[1]


def test_fields_of_requests_keep_their_order_in_units() -> None:
    """Units have the values of fields by position: a job that was planned before reads them so."""
    assert [each.name for each in fields(ValidateRequest)] == [
        "levels", "share", "seed", "shards", "refs", "again", "quarantine", "target"
    ]  # fmt: skip
    assert [each.name for each in fields(ConvertRequest)] == [
        "from_format", "to_format", "format_options", "shard_samples", "shard_size", "template", "naming", "order",
        "seed", "split", "where", "on_collision", "apart", "layout", "media", "primary", "parts", "image", "audio",
        "on_error", "compress", "workers", "wait", "restart", "dry_run", "overwrite", "carries_splits", "finish"
    ]  # fmt: skip


def test_unit_results_round_trip(tmp_path: Path) -> None:
    results = UnitFunction("wdsctl.core.shards.write_job:run_shard_job").results(str(tmp_path))
    other = JOB._replace(path="/out/b.tar")
    unreadable = (UnreadableFile("k", "txt", "no"),)
    assert results.save([JOB], [WrittenShard(1, 2048)]) == [True]
    assert results.save([other], [unreadable]) == [True]
    assert results.load(JOB) == WrittenShard(1, 2048)
    assert results.load(other) == unreadable
