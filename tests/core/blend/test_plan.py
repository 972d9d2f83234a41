from __future__ import annotations

import pickle

from wdsctl.core.blend import read_blend, traverse


def test_traverse_returns_leaves_in_file_order() -> None:
    plan = read_blend(
        {
            "blend": [
                {"path": "/a", "aux": {"media": "/m"}, "subflavors": {"x": 1}},
                {"blend_epochized": [{"path": "/b"}, {"path": "/c", "split_part": "other"}], "weight": 0},
                {"path": "/a"},
            ]
        }
    )

    assert traverse(plan) == [
        ("/a", "train", {"media": "/m"}, {"x": 1}),
        ("/b", "train", {}, {}),
        ("/c", "other", {}, {}),
        ("/a", "train", {}, {}),
    ]


def test_plan_is_picklable_and_independent_of_format() -> None:
    plan = read_blend({"blend": [{"path": "/a"}, {"path": "/b", "weight": "1/3"}]})

    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301 - our own bytes
    assert read_blend({"splits": {"train": {"datasets": [{"path": "/a", "weight": 3}, {"path": "/b"}]}}}) == plan
