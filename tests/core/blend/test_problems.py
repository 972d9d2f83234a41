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


def test_check_keys_reports_line_and_nearest_key() -> None:
    node = from_yaml("path: a\nwieght: 2\n", "x.yaml")

    with pytest.raises(DatasetError) as caught:
        check_keys(node, ("path", "weight"))

    assert caught.value.message == "unknown key 'wieght' at line 2; did you mean 'weight'?"
    assert (caught.value.where, caught.value.hint) == ("x.yaml:2", "use one of the keys path, weight")


def test_suggestion_is_empty_for_dissimilar_word() -> None:
    assert suggestion("zzz", ("path", "weight")) == ""
    with pytest.raises(DatasetError) as caught:
        check_keys(from_mapping({"zzz": 1}, "mapping"), ("path", "weight"))
    assert caught.value.message == "unknown key 'zzz' at mapping.zzz"


def test_node_location_hides_secrets() -> None:
    assert str(NodeLocation("s3://user:secret@bucket/x.yaml?sig=1", 3)) == "s3://bucket/x.yaml:3"


def test_describe_node_value_names_type_and_shortens() -> None:
    values: list[object] = [None, {}, [], "x", 1.5]

    assert [describe_node_value(value) for value in values] == ["nothing", "a mapping", "a list", "'x'", "1.5"]
    assert len(describe_node_value("x" * 1000)) == 60
