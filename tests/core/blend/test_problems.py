from __future__ import annotations

import pytest

from wdsctl.core.blend.yaml_tree import (
    NodeLocation,
    check_keys,
    describe_node_value,
    from_mapping,
    from_yaml,
    suggestion,
)
from wdsctl.core.errors import DatasetError


def test_an_unknown_key_is_told_with_its_line_and_the_nearest_known_one() -> None:
    node = from_yaml("path: a\nwieght: 2\n", "x.yaml")

    with pytest.raises(DatasetError) as caught:
        check_keys(node, ("path", "weight"))

    assert caught.value.message == "unknown key 'wieght' at line 2; did you mean 'weight'?"
    assert (caught.value.where, caught.value.hint) == ("x.yaml:2", "use one of the keys path, weight")


def test_a_word_like_no_other_suggests_nothing() -> None:
    assert suggestion("zzz", ("path", "weight")) == ""
    with pytest.raises(DatasetError) as caught:
        check_keys(from_mapping({"zzz": 1}, "mapping"), ("path", "weight"))
    assert caught.value.message == "unknown key 'zzz' at mapping.zzz"


def test_a_place_shows_no_secrets() -> None:
    assert str(NodeLocation("s3://user:secret@bucket/x.yaml?sig=1", 3)) == "s3://bucket/x.yaml:3"


def test_values_are_called_by_their_kinds_and_kept_short() -> None:
    values: list[object] = [None, {}, [], "x", 1.5]

    assert [describe_node_value(value) for value in values] == ["nothing", "a mapping", "a list", "'x'", "1.5"]
    assert len(describe_node_value("x" * 1000)) == 60
