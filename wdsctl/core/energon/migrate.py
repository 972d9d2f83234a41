"""`wdsctl migrate`: finds what a Python program uses of Megatron Energon, and rewrites what has the same meaning here.

Programs are parsed and never run or imported. Only the characters of a name change, so that formatting and comments
stay.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Literal, NamedTuple

from wdsctl.core.energon.names import (
    ENERGON_PACKAGE,
    FACTORIES,
    MISSING_ARGUMENTS,
    MISSING_MEMBERS,
    NAMES_BY_MODULE,
    NO_BASES,
    NO_CONSTRUCTORS,
    OUR_PACKAGE,
    REPLACEMENTS,
)
from wdsctl.core.errors import InputError, translate_os_errors
from wdsctl.core.file_limits import read_whole
from wdsctl.core.files import replace_atomically
from wdsctl.core.safe_open import open_below

#: "rewrite": the change is mechanical; "same": no change; "note": works, but has another effect; "hand": by hand.
UseKind = Literal["rewrite", "same", "note", "hand"]

_RENAMED = {"IgnoreSample": "SkipSample"}  # of earlier versions
_DATASET_FUNCTIONS = ("get_train_dataset", "get_val_dataset", "get_val_datasets")
_LOADER_FUNCTIONS = ("get_loader", "get_savable_loader")
_KIND_OF_FUNCTION = {
    **dict.fromkeys(_DATASET_FUNCTIONS[:2], "SavableDataset"),
    **dict.fromkeys(_LOADER_FUNCTIONS, "SavableDataLoader"),
    "default_worker_config": "WorkerConfig",
}
_RENAMED_METHODS = {"save_state": "save_state_global", "restore_state": "restore_state_global"}
_DECODER_ARGUMENT = "set `decoder` in the task encoder: this argument is deprecated, but works"
#: Arguments that work, but differently -> what to know.
ARGUMENT_NOTES = {
    **dict.fromkeys(("image_decode", "av_decode", "video_decode_audio", "guess_content"), _DECODER_ARGUMENT),
    "auto_decode": "set `decoder = None` in the task encoder: this argument is deprecated, but works",
    "ignore_decoder_errors": "this argument has no effect, as the loader skips samples that it cannot decode",
    "handler": "pass WorkerConfig(global_error_handler=...): this argument is deprecated, but works",
    **dict.fromkeys(
        ("checkpoint_every_sec", "checkpoint_every_min_n_samples", "n_checkpoints"),
        "this argument has no effect, as states are exact at any moment",
    ),
    "gc_collect_every_n_steps": "this argument has no effect, as the loader leaves garbage collection to Python",
    "fail_on_timeout": "this argument has no effect, as the loader replaces workers that hang",
    "shuffle_buffer_size": "this argument is the size of a window in the computed order; omit it for the default",
    "max_samples_per_sequence": "None means 16 samples, or 128 on network file systems and at URLs, not whole shards",
    "worker_debug_path": "pass trace=FOLDER to get_train_dataset: this argument has no effect",
    "worker_log_level": "pass trace=FOLDER to get_train_dataset: this argument has no effect",
}
_FUNCTIONS_WITH_NOTES = (*_DATASET_FUNCTIONS, *_LOADER_FUNCTIONS, "WorkerConfig", "default_worker_config")
_UNKNOWN_HOOKS = {
    "build_batch": "override batch or encode_batch",
    "build_cook_crude_sample": "override cook_crude_sample",
    "build_encode_sample": "override encode_sample",
    "build_train_datasets": "write a blend file, and pass its path to get_train_dataset",
    "build_val_datasets": "pass the arguments to get_val_dataset",
}
_DECODER_METHODS = dict.fromkeys(("decode", "__call__"), "pass functions in SampleDecoder(decoders=...)")
_MAX_NAMES_IN_A_ROW = 20
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
_DIFF_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class EnergonUse:
    """A use of Energon. `becomes`: what replaces `found`, or what to do by hand."""

    path: str
    line: int
    kind: UseKind
    found: str
    becomes: str


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """`changed`: the files with mechanical changes, written if `is_written`. `diffs`: one for each of them."""

    root: str
    files: int
    changed: tuple[str, ...]
    is_written: bool
    uses: tuple[EnergonUse, ...]
    diffs: tuple[str, ...]

    @property
    def needs_hand_work(self) -> bool:
        return any(use.kind == "hand" for use in self.uses)


class _Edit(NamedTuple):
    """Characters [start, stop) of a program become `text`."""

    start: int
    stop: int
    text: str


def migrate(path: str, *, write: bool = False) -> MigrationReport:
    """Find the uses of Energon in a Python file, or in all below a folder, and rewrite mechanical ones if `write`.

    Does not follow links, and skips hidden folders and installed packages. Raises InputError if the path does not exist
    or is neither a folder nor a Python file.
    """
    files = list(_python_files(path))
    uses: list[EnergonUse] = []
    changed, diffs = [], []
    for each in files:
        with translate_os_errors(each, "read"), open_below(each, path) as file:
            data = read_whole(file, each)
        if b"megatron" not in data:
            continue
        found, rewritten, encoding = migrate_text(each, data)
        uses += found
        if rewritten is not None:
            old = data.decode(encoding)
            changed.append(each)
            diffs.append(_diff(each, old, rewritten))
            if write:
                _replace(each, rewritten.encode(encoding))
    return MigrationReport(path, len(files), tuple(changed), write, tuple(uses), tuple(diffs))


def migrate_text(path: str, data: bytes) -> tuple[list[EnergonUse], str | None, str]:
    """(uses of Energon, the program after mechanical changes or None if there are none, its encoding)."""
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
        text = data.decode(encoding)
        scan = _Scan(path, text)
        scan.visit(ast.parse(data))
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        hint = f"correct the file, as Python cannot parse it: {error}"
        return [EnergonUse(path, line, "hand", "the file", hint)], None, "utf-8"
    uses = sorted(scan.uses, key=lambda use: use.line)
    return uses, _apply(text, scan.edits), encoding


class _Scan(ast.NodeVisitor):
    """Collects the uses of Energon in one program, and the edits.

    `modules`: names in the program that mean a module of Energon ("" is the package), from anywhere in the program.
    `names`: names that mean something of Energon, by what they were imported as.
    """

    def __init__(self, path: str, text: str) -> None:
        self.uses: list[EnergonUse] = []
        self.edits: list[_Edit] = []
        self._path = path
        self._text = text
        self._line_starts = [0, *(found.end() for found in _LINE_END.finditer(text))]
        self._modules: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._loaders: set[str] = set()  # variables and attributes with a loader: "loader", "self.loader"
        self._datasets: set[str] = set()  # variables and attributes with a dataset
        self._kinds: dict[str, str] = {}  # variables and attributes with an object of a class of MISSING_MEMBERS
        self._imports_package = False  # `import megatron.energon` binds `megatron`

    def visit_Module(self, node: ast.Module) -> None:
        """Imports first: a function may use a name that is imported below it."""
        for each in ast.walk(node):
            if isinstance(each, ast.Import):
                self._scan_import(each)
            elif isinstance(each, ast.ImportFrom):
                self._scan_import_from(each)
        for each in ast.walk(node):
            if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(each.value, ast.Call):
                self._note_variables(each, self._called_name(each.value))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if _has_long_chain(node):  # each look at its names would take as long as the chain is
            self.generic_visit(node)
            return
        if self._imports_package and _is_package(node):
            self._replace_text(node, ENERGON_PACKAGE, OUR_PACKAGE)
        module = self._module_of(node.value)
        if module is not None and not self._is_module(module, node.attr):
            self._check_name(node, module, node.attr, is_used=True)
        owner = self._names.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if owner in REPLACEMENTS:
            self._add(node, "hand", f"{owner}.{node.attr}", REPLACEMENTS[owner])
        kind = self._kinds.get(_variable(node.value)) or self._energon_name(node.value) or ""
        instead = MISSING_MEMBERS.get(kind, {}).get(node.attr)
        if instead is not None:
            self._add(node, "hand", f"{kind}.{node.attr}", instead)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        bases = [self._energon_name(base) for base in node.bases]
        for base, name in zip(node.bases, bases, strict=True):
            if name in REPLACEMENTS and isinstance(_unsubscripted(base), ast.Name):
                self._add(base, "hand", f"class {node.name}({name})", REPLACEMENTS[name])
            elif name in NO_BASES:
                self._add(base, "hand", f"class {node.name}({name})", NO_BASES[name])
        is_encoder = any(name is not None and name.endswith("TaskEncoder") for name in bases)
        uncalled = _UNKNOWN_HOOKS if is_encoder else _DECODER_METHODS if "SampleDecoder" in bases else {}
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and each.name in uncalled:
                found = f"{node.name}.{each.name}"
                self._add(each, "hand", found, f"{uncalled[each.name]}: the loader does not call it")
        if is_encoder and not _assigned_members(node).intersection(MISSING_MEMBERS["TaskEncoder"]):
            self._kinds["self"] = "TaskEncoder"
        self.generic_visit(node)
        self._kinds.pop("self", None)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._called_name(node)
        instead = REPLACEMENTS.get(name or "") or FACTORIES.get(name or "")
        if instead is not None and isinstance(_unsubscripted(node.func), ast.Name):
            self._add(node, "hand", f"{name}(...)", instead)
        if name in NO_CONSTRUCTORS:
            self._add(node, "hand", f"{name}(...)", NO_CONSTRUCTORS[name])
        for argument in node.keywords:
            if argument.arg in MISSING_ARGUMENTS.get(name or "", ()):
                self._add(argument, "hand", f"{argument.arg}=", f"remove it: {name} has no such argument")
        if name in _FUNCTIONS_WITH_NOTES:
            for argument in node.keywords:
                if argument.arg in ARGUMENT_NOTES:
                    self._add(argument, "note", f"{argument.arg}=", ARGUMENT_NOTES[argument.arg])
        function = node.func
        if isinstance(function, ast.Attribute) and _variable(function.value) in self._loaders:
            self._scan_method(node, function)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        name = _variable(node.iter)
        if name in self._datasets:
            self._add(node.iter, "hand", f"for ... in {name}", f"iterate over get_loader({name})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Names in strings, such as arguments of `import_module` and of mocks."""
        if isinstance(node.value, str) and re.fullmatch(r"megatron\.energon(\.\w+)*", node.value):
            new = OUR_PACKAGE + node.value.removeprefix(ENERGON_PACKAGE)
            self._add(node, "hand", repr(node.value), f"write {new!r}, unless it names what Energon itself needs")

    def _scan_import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = _module_below(alias.name)
            if module is None:
                continue
            if module not in NAMES_BY_MODULE:
                self._add(node, "hand", f"import {alias.name}", "remove it: wdsctl has no such module")
                continue
            if alias.asname is None:
                self._imports_package = True
            else:
                self._modules[alias.asname] = module
            if self._replace_text(alias, ENERGON_PACKAGE, OUR_PACKAGE):
                new = OUR_PACKAGE + alias.name.removeprefix(ENERGON_PACKAGE)
                self._add(node, "rewrite", f"import {alias.name}", f"import {new}")

    def _scan_import_from(self, node: ast.ImportFrom) -> None:
        if node.level:
            return
        if node.module == "megatron" and any(alias.name == "energon" for alias in node.names):
            self._scan_import_of_package(node)
            return
        module = _module_below(node.module or "")
        if module is None:
            return
        old, target = str(node.module), _nearest_module(module, [alias.name for alias in node.names])
        if target is None:
            names = ", ".join(alias.name for alias in node.names)
            self._add(node, "hand", f"from {old} import {names}", "wdsctl has no such module: remove the import")
            return
        start = self._offset(node.lineno, node.col_offset)
        new = f"{OUR_PACKAGE}.{target}".rstrip(".")
        if not re.match(rf"from[ \t]+{re.escape(old)}\b", self._text[start:]):
            self._add(node, "hand", f"from {old} import", f"write from {new} import, in one line")
            return
        at = self._text.index(old, start)
        self.edits.append(_Edit(at, at + len(old), new))
        self._add(node, "rewrite", f"from {old} import", f"from {new} import")
        module = target
        for alias in node.names:
            self._scan_alias(alias, module)

    def _scan_import_of_package(self, node: ast.ImportFrom) -> None:
        """`from megatron import energon`, possibly with other names."""
        if len(node.names) > 1:
            self._add(
                node, "hand", "from megatron import ...", "import energon from wdsctl.loader in a line of its own"
            )
            return
        self._modules[node.names[0].asname or "energon"] = ""
        start = self._offset(node.lineno, node.col_offset)
        if not re.match(r"from[ \t]+megatron\b", self._text[start:]):
            self._add(node, "hand", "from megatron import energon", "from wdsctl.loader import energon")
            return
        at = self._text.index("megatron", start)
        self.edits.append(_Edit(at, at + len("megatron"), "wdsctl.loader"))
        self._add(node, "rewrite", "from megatron import energon", "from wdsctl.loader import energon")

    def _scan_alias(self, alias: ast.alias, module: str) -> None:
        below = f"{module}.{alias.name}".strip(".")
        if below in NAMES_BY_MODULE and alias.name not in NAMES_BY_MODULE[module]:
            self._modules[alias.asname or alias.name] = below
            return
        renamed = _RENAMED.get(alias.name)
        if renamed is not None and renamed in NAMES_BY_MODULE[module]:
            new = renamed if alias.asname else f"{renamed} as {alias.name}"
            self._replace_text(alias, alias.name, new)
            self._add(alias, "rewrite", alias.name, new)
        elif alias.name != "*":
            self._check_name(alias, module, alias.name, is_used=False)
        self._names[alias.asname or alias.name] = alias.name

    def _check_name(self, node: ast.AST, module: str, name: str, *, is_used: bool) -> None:
        """Report a name of a module that wdsctl lacks, or that only annotations may use."""
        if name not in NAMES_BY_MODULE[module] and not name.startswith("__"):
            self._add(node, "hand", name, REPLACEMENTS.get(name) or _hint_for_unknown_name(name))
        elif name in REPLACEMENTS:
            self._add(node, "hand" if is_used else "same", name, REPLACEMENTS[name] if is_used else _IN_ANNOTATIONS)

    def _scan_method(self, node: ast.Call, function: ast.Attribute) -> None:
        new = _RENAMED_METHODS.get(function.attr)
        if new is not None and self._replace_end(function, function.attr, new):
            self._add(function, "rewrite", f".{function.attr}(...)", f".{new}(...)")
        for argument in node.keywords:
            if argument.arg == "dst_rank" and (new or function.attr) == "save_state_global":
                self._replace_text(argument, "dst_rank", "global_dst_rank")
                self._add(argument, "rewrite", "dst_rank=", "global_dst_rank=")

    def _note_variables(self, node: ast.Assign | ast.AnnAssign, name: str | None) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        variables = {variable for each in targets if (variable := _variable(each))}
        if name in _LOADER_FUNCTIONS:
            self._loaders |= variables
        elif name in _DATASET_FUNCTIONS[:2]:
            self._datasets |= variables
        kind = _KIND_OF_FUNCTION.get(name or "", name or "")
        if kind in MISSING_MEMBERS:
            self._kinds |= dict.fromkeys(variables, kind)

    def _called_name(self, node: ast.Call) -> str | None:
        return self._energon_name(node.func)

    def _energon_name(self, node: ast.AST) -> str | None:
        """The name of Energon that an expression means: an imported one, or one of a module; None for others."""
        node = _unsubscripted(node)
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            if self._module_of(node.value) is not None:
                return node.attr
            owner = self._energon_name(node.value)
            return node.attr if owner == "WorkerConfig" else None
        return None

    def _module_of(self, node: ast.AST) -> str | None:
        """The module of Energon that an expression means: `energon`, or `megatron.energon.errors`."""
        if isinstance(node, ast.Name):
            return self._modules.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        if self._imports_package and _is_package(node):
            return ""
        outer = self._module_of(node.value)
        return f"{outer}.{node.attr}".strip(".") if outer is not None and self._is_module(outer, node.attr) else None

    def _is_module(self, module: str, name: str) -> bool:
        return name not in NAMES_BY_MODULE[module] and f"{module}.{name}".strip(".") in NAMES_BY_MODULE

    def _add(self, node: ast.AST, kind: UseKind, found: str, becomes: str) -> None:
        self.uses.append(EnergonUse(self._path, getattr(node, "lineno", 1), kind, found, becomes))

    def _replace_text(self, node: ast.AST, old: str, new: str) -> bool:
        """Replace the text at the beginning of a node; False, and a use for the hand, if it is written differently."""
        start = self._offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        if not self._text.startswith(old, start):
            self._add(node, "hand", old, f"write {new}")
            return False
        self.edits.append(_Edit(start, start + len(old), new))
        return True

    def _replace_end(self, node: ast.Attribute, old: str, new: str) -> bool:
        stop = self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        if self._text[stop - len(old) : stop] != old:
            return False
        self.edits.append(_Edit(stop - len(old), stop, new))
        return True

    def _offset(self, line: int, column: int) -> int:
        """The character at a line and a column in UTF-8 bytes, as `ast` counts them."""
        start = self._line_starts[line - 1]
        end = self._line_starts[line] if line < len(self._line_starts) else len(self._text)
        return start + len(self._text[start:end].encode()[:column].decode())


_IN_ANNOTATIONS = "annotations may use it"


def _variable(node: ast.AST) -> str:
    """The text of a variable or of an attribute of one, such as "self.loader"; "" for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    owner = _variable(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if isinstance(node, ast.Attribute) and owner else ""


def _assigned_members(node: ast.ClassDef) -> set[str]:
    """The names that a class defines, and the attributes that it assigns."""
    functions = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    return functions | {
        each.attr if isinstance(each, ast.Attribute) else each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute | ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _hint_for_unknown_name(name: str) -> str:
    for module, names in NAMES_BY_MODULE.items():
        if name in names:
            return f"import the name from {f'{OUR_PACKAGE}.{module}'.rstrip('.')}"
    return "replace the code that uses the name: wdsctl has no counterpart"


def _module_below(name: str) -> str | None:
    """The module below Energon's package, "" for the package; None for other modules."""
    if name == ENERGON_PACKAGE:
        return ""
    return name.removeprefix(f"{ENERGON_PACKAGE}.") if name.startswith(f"{ENERGON_PACKAGE}.") else None


def _nearest_module(module: str, names: list[str]) -> str | None:
    """The module of ours for names of one of Energon's: the same, or the nearest above it that has all these names."""
    if module in NAMES_BY_MODULE:
        return module
    above = module
    while above:
        above = above.rpartition(".")[0]
        if NAMES_BY_MODULE.get(above, frozenset()) >= {_RENAMED.get(name, name) for name in names}:
            return above
    return None


def _has_long_chain(node: ast.expr) -> bool:
    """Whether an expression has more names in a row than any name of Energon: `a.b.c` has three."""
    for _ in range(_MAX_NAMES_IN_A_ROW):
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        node = node.value
    return True


def _is_package(node: ast.Attribute) -> bool:
    return node.attr == "energon" and isinstance(node.value, ast.Name) and node.value.id == "megatron"


def _unsubscripted(node: ast.AST) -> ast.AST:
    return node.value if isinstance(node, ast.Subscript) else node


def _apply(text: str, edits: list[_Edit]) -> str | None:
    if not edits:
        return None
    for edit in sorted(set(edits), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.stop :]
    return text


def _diff(path: str, old: str, new: str) -> str:
    """A diff that `patch` applies: only a newline ends a line, unlike for `splitlines`."""
    before, after = (_DIFF_LINE.findall(each) for each in (old, new))
    lines = difflib.unified_diff(before, after, path, path)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _replace(path: str, data: bytes) -> None:
    """Replace a file at once, with the permissions that it had."""
    with replace_atomically(path) as draft:
        with open(draft, "xb") as file:
            file.write(data)
        os.chmod(draft, os.stat(path).st_mode & 0o7777)


def _python_files(path: str) -> Iterator[str]:
    """The Python files to read, in the order of their names."""
    if os.path.isdir(path):
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(each for each in folders if each not in _SKIPPED_FOLDERS and not each.startswith("."))
            files = (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py"))
            yield from (each for each in files if not os.path.islink(each))
    elif not os.path.exists(path):
        raise InputError("the file does not exist", where=path, hint="pass a Python file, or a folder of them")
    elif not path.endswith((".py", ".pyw")):
        raise InputError("the file is not a Python program", where=path, hint="pass a file whose name ends with .py")
    else:
        yield path
