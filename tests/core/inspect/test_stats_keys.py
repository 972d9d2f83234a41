from __future__ import annotations

from wdsctl.core.inspect.contents import MAX_JSON_PATHS, JsonKeyStats


def test_json_key_stats_collects_types_lengths_and_ranges_by_path() -> None:
    keys = JsonKeyStats()
    keys.add({"a": "word", "meta": {"n": 3}, "boxes": [{"x": 1.5}, {"x": 2}]})
    keys.add({"a": None, "boxes": []})

    assert {path: facts.samples for path, facts in keys.paths.items()} == {
        "a": 2,
        "meta": 1,
        "meta.n": 1,
        "boxes": 2,
        "boxes[]": 1,
        "boxes[].x": 1,
    }
    assert dict(keys.paths["a"].types) == {"string": 1, "null": 1}
    assert (keys.paths["a"].lengths.min, keys.paths["boxes"].lengths.max) == (4, 2)
    assert (keys.paths["boxes[].x"].low, keys.paths["boxes[].x"].high) == (1.5, 2)
    assert dict(keys.paths["boxes[].x"].types) == {"number": 1, "integer": 1}


def test_json_key_stats_limits_number_of_paths() -> None:
    keys = JsonKeyStats()
    keys.add({str(i): i for i in range(10 * MAX_JSON_PATHS)})
    assert (len(keys.paths), keys.skipped_values) == (MAX_JSON_PATHS, 9 * MAX_JSON_PATHS)


def test_json_key_stats_uses_dot_for_non_mappings() -> None:
    keys = JsonKeyStats()
    keys.add([1, 2])
    keys.add(True)
    assert dict(keys.paths["."].types) == {"list": 1, "boolean": 1}
