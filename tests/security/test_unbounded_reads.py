"""No file is read as a whole without a limit: a hole of 40 GiB takes no place on a disk, and all of the memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests import sources

_WHOLE = {"read", "readall", "readline", "readlines", "read1", "read_text", "read_bytes"}
#: Names of open files in this package, which a loop would read in lines of any length.
_FILES = {"file"}
#: What a module has that the rule may find. To parse every module takes seconds.
_WORDS = re.compile(rf"\.(?:{'|'.join(sorted(_WHOLE))})\(|\bin\s+(?:enumerate\(\s*)?(?:{'|'.join(_FILES)})\b")

#: Reason -> calls in a module.
EXCEPTIONS = {
    "the user types or pipes the text": [
        "cli/commands/sql.py: sys.stdin.read()",
        "core/dataset/root_spec.py: stream.read()",
    ],
    "the system or the package wrote the file": [
        "core/catalog/database_file.py: file.read()",
        "core/codes.py: file.read()",
        "core/dataset/lock.py: file.read()",
        "core/init/render.py: file.read()",
        "core/inspect/doctor.py: file.read()",
        "core/storage/storage.py: for each of file",
    ],
    "this process or its parent made the file": [
        "core/split/leaks.py: file.read()",
        "loader/stores/disk_cache.py: file.read()",
        "loader/stores/shard_cache_folder.py: file.read()",
    ],
    "the answer states its length, which is checked before": ["core/storage/azure_objects.py: stream.readall()"],
    "a program of the user's names the file": ["loader/energon/epathlib.py"],
    "another method of that name, with a limit": [
        "core/importers/common/json_rows.py: file.read_bytes(element, stop)",
        "core/storage/http_client.py: super().read()",
        "core/storage/source_files.py: ahead.popleft().read()",
        "loader/integrations/webdataset.py: part.read()",
        "loader/stores/disk_cache.py: process_cache.read_bytes(store, entry)",
    ],
}


def test_files_are_not_read_without_a_limit() -> None:
    found = {each for module in sources.texts() for each in _unbounded_reads(module)}
    listed = {each for calls in EXCEPTIONS.values() for each in calls}
    modules = {each.partition(":")[0] for each in found}

    assert sorted(each for each in found if each not in listed and each.partition(":")[0] not in listed) == []
    assert sorted(listed - found - modules) == [], "remove the lines"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("file.read()", ["file.read()"]),
        ("file.read(-1)", ["file.read(-1)"]),
        ("file.read(10)", []),
        ("file.readline(10)", []),
        ("Path(x).read_text(encoding='utf-8')", ["Path(x).read_text(encoding='utf-8')"]),
        ("for line in file: pass", ["for each of file"]),
        ("[x for i, x in enumerate(file, 1)]", ["for each of enumerate(file, 1)"]),
        ("for row in rows: pass", []),
    ],
)
def test_rule_finds_unbounded_reads(text: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "texts", lambda: {"a.py": text})

    assert list(_unbounded_reads("a.py")) == [f"a.py: {each}" for each in found]


def _unbounded_reads(module: str) -> Iterator[str]:
    if not _WORDS.search(sources.texts()[module]):
        return
    for node in ast.walk(sources.tree(module)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WHOLE:
            is_of_path = node.func.attr in ("read_text", "read_bytes")
            if is_of_path or not (node.args or node.keywords) or ast.unparse(node.args[0]) == "-1":
                yield f"{module}: {ast.unparse(node)}"
        elif isinstance(node, ast.For | ast.comprehension) and _is_file(node.iter):
            yield f"{module}: for each of {ast.unparse(node.iter)}"


def _is_file(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and sources.dotted_name(value.func) == "enumerate":
        value = value.args[0]
    return isinstance(value, ast.Name) and value.id in _FILES
