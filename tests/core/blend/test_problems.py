from __future__ import annotations

from wdsctl.core.blend.yaml_tree import NodeLocation, describe_node_value, suggestion, unknown_key_error


def test_an_unknown_key_is_told_with_its_line_and_the_nearest_known_one() -> None:
    error = unknown_key_error("wieght", NodeLocation("x.yaml", 7), ("path", "weight"))

    assert error.message == "unknown key 'wieght' at line 7; did you mean 'weight'?"
    assert (error.where, error.hint) == ("x.yaml:7", "the keys here are path, weight")


def test_a_word_like_no_other_suggests_nothing() -> None:
    assert suggestion("zzz", ("path", "weight")) == ""
    assert (
        unknown_key_error("zzz", NodeLocation("mapping.blend[0].zzz"), ()).message
        == "unknown key 'zzz' at mapping.blend[0].zzz"
    )


def test_a_place_shows_no_secrets() -> None:
    assert str(NodeLocation("s3://user:secret@bucket/x.yaml?sig=1", 3)) == "s3://bucket/x.yaml:3"


def test_values_are_called_by_their_kinds_and_kept_short() -> None:
    values: list[object] = [None, {}, [], "x", 1.5]

    assert [describe_node_value(value) for value in values] == ["nothing", "a mapping", "a list", "'x'", "1.5"]
    assert len(describe_node_value("x" * 1000)) == 60
