"""One door: the package opens files through `safe_open` and `files`, and gives native readers open files or buffers.

A reader that gets a path follows links, waits for pipes, and opens what lies at the path by then. Exceptions are listed
with their reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests import sources

#: The modules that open paths: data below a named folder, files of wdsctl's own, folders, SQLite files.
DOOR = ("core/safe_open.py", "core/files.py", "core/directories.py", "core/sqlite_file.py")

PATH_OPENERS = {"open", "os.open", "io.open", "io.FileIO", "codecs.open", "os.fdopen", "io.open_code"}
#: Functions that return a descriptor of the door.
DESCRIPTORS = {"open_beneath", "open_in", "create_in", "open_without_links"}
#: Calls whose results native readers may have: buffers, and files of the door.
BUFFERS = {"io.BytesIO", "open_random_access", "arrow.open_random_access", "BytesIO", "image_file"}
NATIVE_READERS = {
    *("Image.open", "PIL.Image.open", "av.open", "av.container.open", "torch.load", "sqlite3.connect"),
    *("zipfile.ZipFile", "zipfile.is_zipfile", "tarfile.open", "tarfile.TarFile", "tarfile.is_tarfile"),
    *("gzip.open", "gzip.GzipFile", "bz2.open", "bz2.BZ2File", "lzma.open", "lzma.LZMAFile", "wave.open"),
    *("np.load", "np.memmap", "np.fromfile", "np.loadtxt", "np.genfromtxt"),
    *("os.link", "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"),
}
#: Names of pyarrow's functions, which are reached by several names of the module.
ARROW_READERS = {"memory_map", "OSFile", "ParquetFile", "ParquetDataset", "read_table", "input_stream", "read_metadata"}
NAMED = {"open_named", "open_named_handle"}  # for files that the user or the program names
METHODS = {"read_text", "read_bytes"}  # of pathlib

#: Reason -> calls in a module, or modules.
EXCEPTIONS = {
    "the user names the file, and it may be a pipe": [
        "cli/commands/checksum.py: open(file)",
        "cli/config_file.py: open(path)",
        "cli/config_file.py: os.open(path)",
        "core/inspect/get.py: open(path)",
        "core/offsets/key_list.py: open(path)",
    ],
    "the user or the program names the file, which is opened as one that is not data": [
        "cli/commands/skill.py: open_named(path)",
        "core/checkpoint/files.py: open_named(path)",
        "core/columns/spec.py: open_named(path)",
        "core/dataset/location.py: open_named(path)",
        "core/dataset/location.py: open_named(root)",
        "core/dataset/root_spec.py: open_named(text[1:])",
        "core/import_guard.py: open_named(origin)",  # a module of the user's, by `sys.path`
        "core/energon/split_yaml.py: open_named(path)",
        "core/split/store.py: open_named(file)",
        "core/writer/values.py: open_named_handle(where)",  # a Path object, which no data is
        "loader/decoding/av/media_source.py: open_named(self.path)",
        "loader/energon/epathlib.py",
        "loader/energon/flavors/prepare_dataset.py: open_named(root)",
        "loader/integrations/megatron.py: torch.load(path)",
        "loader/integrations/transformers.py: open_named(path)",
        "loader/reading/user_code.py: open_named(path)",  # with --trust-code only
    ],
    "this process has just made the file": [
        "core/catalog/stage.py: os.open(file)",
        "core/convert/unit.py: open_named(draft)",
        "core/export/energon.py: sqlite3.connect(path)",
        "core/storage/upload_journal.py: open_named(path)",
    ],
    "the folder is this user's own, with a file that says so: mirrors and caches": [
        "core/remote_catalogs/mirror.py: os.open(path)",
        "core/remote_catalogs/ranges.py: os.open(path)",
        "core/remote_catalogs/ranges.py: os.open(ranges)",
        "core/remote_catalogs/ranges.py: os.open(self._path)",
        "core/remote_catalogs/ranges.py: os.open(self._ranges)",
        "core/remote_catalogs/store.py: os.open(path)",
        "core/storage/cache_layers.py: os.open(f'{path}.lock')",
        "loader/stores/disk_cache.py",
        "loader/stores/disk_cache_folder.py",
        "loader/stores/shard_cache_folder.py",
    ],
    "the system or the package wrote the file": [
        "core/catalog/database_file.py: open(os.path.join(os.path.dirname(__file__), name))",
        "core/codes.py: open(CODES_FILE)",
        "core/dataset/lock.py: open(f'/proc/{pid}/stat')",
        "core/init/render.py: open(os.path.join(TEMPLATES_FOLDER, name))",
        "core/storage/storage.py: open(mounts)",
    ],
    "the value is an open file, or a descriptor": [
        "cli/start.py: open(number)",
        "core/checkpoint/torch_file.py: zipfile.ZipFile(buffer)",
        "core/checkpoint/torch_file.py: zipfile.ZipFile(file)",
        "core/checkpoint/torch_file.py: zipfile.is_zipfile(file)",
        "core/columns/column_file.py: np.memmap(file)",
        "core/convert/exporters/shards.py: gzip.GzipFile()",
        "core/convert/transcode.py: av.open(encoded)",
        "core/dataset/lock.py: open(handle)",
        "core/importers/common/compressed.py: arrow.input_stream",
        "core/importers/common/compressed.py: bz2.open",
        "core/importers/common/compressed.py: gzip.open",
        "core/importers/common/compressed.py: lzma.open",
        "core/importers/compressed_tars.py: tarfile.open()",
        "core/media/stream.py: av.open(source)",
        "core/prepare/archives.py: os.link(f'/proc/self/fd/{handle}')",
        "core/prepare/archives.py: zipfile.ZipFile(file)",
        "core/validate/headers.py: zipfile.ZipFile(source)",
        "loader/decoding/av/container.py: av.open(self._file)",
        "loader/decoding/av/decoder.py: av.open(file)",
        "loader/workers/spawn.py: open(payload_descriptor)",
    ],
    "another method of that name": [
        "core/importers/common/json_rows.py: file.read_bytes(element)",
    ],
}

#: What a module has that the rule may find: the names, and `open` as a call or a value. To parse every module takes
#: seconds.
_WORDS = re.compile(
    rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted((PATH_OPENERS | NATIVE_READERS | NAMED) - {'open'})))})\b"
    rf"|\b(?:{'|'.join(sorted(ARROW_READERS | METHODS))})\b"
    r"|(?<![\w.])open\s*(?:[(),:\]}]|\b(?:or|and|if|else)\b|$)",
    re.MULTILINE,
)
#: The modules that may import `pathlib.Path`: it has openers that the rule does not see.
_PATHLIB = {"loader/energon/epathlib.py", "loader/energon/flavors/prepare_dataset.py", "loader/runtime/user_lines.py"}


def test_files_are_opened_by_the_door_only() -> None:
    found = {opening for module in sources.texts() for opening in _openings(module)}
    listed = {opening for openings in EXCEPTIONS.values() for opening in openings}
    modules = {opening.partition(":")[0] for opening in found}

    assert sorted(each for each in found if each not in listed and each.partition(":")[0] not in listed) == []
    assert sorted(listed - found - modules) == [], "remove the lines"


def test_openers_are_called_by_the_name_of_their_module() -> None:
    names = {name.rpartition(".")[::2] for name in PATH_OPENERS | NATIVE_READERS if "." in name}
    line = re.compile(r"^ *(?:from (\S+) import (.+)|import (\S+) as \w+)$", re.MULTILINE)
    imported = [
        f"{module}: {match[0].strip()}"
        for module, text in sources.texts().items()
        for match in line.finditer(text)
        for name in re.findall(r"\w+", match[2] or "")
        if (match[1], name) in names or name in ARROW_READERS or (name == "Path" and module not in _PATHLIB)
    ]
    renamed = [
        match[0]
        for text in sources.texts().values()
        for match in line.finditer(text)
        if match[3] in {module for module, _ in names} - {"np"}
    ]

    assert (imported, renamed) == ([], [])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("open(path, 'rb')", ["open(path)"]),
        ("open(path)", ["open(path)"]),
        ("open(path, 'wb')", ["open(path)"]),
        ("open(path, 'xb'); open(open_beneath(path, roots), 'rb'); open(3)", []),
        ("os.open(path, os.O_RDONLY)", ["os.open(path)"]),
        ("open(os.open(path, flags), 'rb')", ["os.open(path)"]),
        ("zipfile.ZipFile(path)", ["zipfile.ZipFile(path)"]),
        ("zipfile.ZipFile(io.BytesIO(data))", []),
        ("partial(zipfile.ZipFile, path)", ["zipfile.ZipFile"]),
        ("def read(archive: zipfile.ZipFile) -> None: ...", []),
        ("pq.ParquetFile(path, memory_map=True)", ["pq.ParquetFile(path)"]),
        ("parquet.ParquetFile(arrow.open_random_access(path))", []),
        ("pyarrow.memory_map(path)", ["pyarrow.memory_map(path)"]),
        ("sqlite3.connect(path); sqlite3.connect(':memory:')", ["sqlite3.connect(path)"]),
        ("Path(name).read_text()", ["read_text()"]),
        ("{'gzip': gzip.open}", ["gzip.open"]),
    ],
)
def test_rule_finds_openings(text: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "texts", lambda: {"a.py": text})

    assert _openings("a.py") == [f"a.py: {each}" for each in found]


def _openings(module: str) -> list[str]:
    if module in DOOR or not _WORDS.search(sources.texts()[module]):
        return []
    tree = sources.tree(module)
    nodes = list(ast.walk(tree))
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    types = {each for node in nodes for each in _annotations(node)}
    found = []
    for node in nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or node in types:
            continue
        name, call = sources.dotted_name(node), calls.get(node)
        last = node.attr if isinstance(node, ast.Attribute) else ""
        if name in PATH_OPENERS:
            is_allowed = call is None or _opens_descriptor(call) or _creates(call)
        elif name in NATIVE_READERS or last in ARROW_READERS:
            is_allowed = call is not None and _gets_buffer(call)
        else:
            is_allowed = not (call is not None and (name in NAMED or last in METHODS))
        if not is_allowed:
            first = ast.unparse(call.args[0]) if call is not None and call.args else ""
            found.append(f"{module}: {name or last}" if call is None else f"{module}: {name or last}({first})")
    return found


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    given = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    bases = node.bases if isinstance(node, ast.ClassDef) else ()
    for each in (*given, *bases):
        if each is not None:
            yield from ast.walk(each)


def _opens_descriptor(call: ast.Call) -> bool:
    """Whether a call opens a descriptor of the door, one from `os.open`, which is looked at, or a constant."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Call):
        return sources.dotted_name(first.func) in DESCRIPTORS | {"os.open"}
    return isinstance(first, ast.Constant) or (first is not None and ast.unparse(first) == "os.devnull")


def _creates(call: ast.Call) -> bool:
    """Whether a call creates a file: neither a link nor a file that exists is opened then."""
    words = [
        ast.unparse(each) for each in (*call.args[1:2], *(key.value for key in call.keywords if key.arg == "mode"))
    ]
    return any("O_EXCL" in word for word in words) or any(word in ("'xb'", "'x+b'", "'x'") for word in words)


def _gets_buffer(call: ast.Call) -> bool:
    """Whether the first argument is a buffer, a file of the door, or a constant, such as `:memory:`."""
    given = [*call.args[:1], *(key.value for key in call.keywords if key.arg == "fileobj")]
    return any(
        isinstance(each, ast.Constant) or (isinstance(each, ast.Call) and sources.dotted_name(each.func) in BUFFERS)
        for each in given
    )
