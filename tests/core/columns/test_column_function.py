from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wdsctl.core.columns.spec import digest_source, import_from, load_column_function, parse_column_spec
from wdsctl.core.errors import UsageError

Module = Callable[[str, str], None]


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Module]:
    """Writes modules into a folder on the import path; removes them from sys.modules afterwards."""
    before = set(sys.modules)

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        sys.modules.pop(name, None)

    with import_from(str(tmp_path)):
        yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def get_error(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load_column_function(parse_column_spec(text))
    assert caught.value.code == "WDS312"
    return caught.value


def test_function_is_found_by_module_and_dotted_name(module: Module) -> None:
    module("wds_lengths", "class Counter:\n    @staticmethod\n    def tokens(sample): return 3\n")
    function = load_column_function(parse_column_spec("wds_lengths:Counter.tokens"))
    assert (function.call({}), function.parts) == (3, None)


@pytest.mark.parametrize("declared", ['"txt"', '("txt",)', '["txt"]'])
def test_function_declares_parts_it_needs(module: Module, declared: str) -> None:
    module("wds_parts", f"def tokens(sample): return 3\ntokens.parts = {declared}\n")
    assert load_column_function(parse_column_spec("wds_parts:tokens")).parts == frozenset({"txt"})


def test_declared_parts_that_are_no_names_are_refused(module: Module) -> None:
    module("wds_odd_parts", "def tokens(sample): return 3\ntokens.parts = 7\n")
    assert "is 7, expected names of parts" in get_error("wds_odd_parts:tokens").message


def test_unknown_module_error_suggests_similar_name(module: Module) -> None:
    module("wds_lengths", "")
    error = get_error("wds_lenghts:tokens")
    assert (error.message, error.hint) == ("no module 'wds_lenghts' was found", "did you mean wds_lengths?")


def test_unknown_function_error_suggests_similar_name(module: Module) -> None:
    module("wds_lengths", "class Counter: pass\ndef tokens(sample): return 1\n")
    assert get_error("wds_lengths:tokenz").hint == "did you mean tokens?"
    assert get_error("wds_lengths:Counter.tokens").message == "wds_lengths.Counter has no 'tokens'"


def test_object_that_is_no_function_is_refused(module: Module) -> None:
    module("wds_lengths", "tokens = 3\n")
    assert "is int, not a function" in get_error("wds_lengths:tokens").message


@pytest.mark.parametrize(
    ("text", "reason"),
    [("import not_there_at_all", "No module named 'not_there_at_all'"), ("1 / 0", "division"), ("def", "SyntaxError")],
)
def test_failing_module_import_reports_reason(module: Module, text: str, reason: str) -> None:
    module("wds_broken", text)
    error = get_error("wds_broken:tokens")
    assert error.message.startswith("the module 'wds_broken' cannot be imported: ")
    assert reason in error.message


def test_output_of_imported_module_is_sent_to_stderr(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    module("wds_loud", "print('loading')\ndef tokens(sample): return 1\n")
    load_column_function(parse_column_spec("wds_loud:tokens"))
    assert capsys.readouterr() == ("", "loading\n")


def test_digest_source_covers_file_and_is_empty_for_built_in(module: Module) -> None:
    spec = parse_column_spec("wds_source:tokens")
    module("wds_source", "def tokens(sample): return 1\n")
    first = digest_source(spec)
    module("wds_source", "def helper(): pass\ndef tokens(sample): return 1\n")
    assert len(first) == 16
    assert digest_source(spec) != first
    assert digest_source(parse_column_spec("size:jpg")) == ""
    assert digest_source(parse_column_spec("operator:length_hint")) != ""


def test_import_from_restores_sys_path(tmp_path: Path) -> None:
    before = list(sys.path)
    with import_from(os.fspath(tmp_path)):
        assert sys.path[0] == str(tmp_path)
    assert sys.path == before
