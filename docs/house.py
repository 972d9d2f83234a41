"""Prints figures of the package's structure, next to those of earlier days. `make house`.

With `--check`, says which files import each other in a circle. Needs nothing but Python.
"""  # noqa: INP001 - a script

from __future__ import annotations

import ast
import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "wdsctl"

#: By this script: of the last commit before the package was divided into rooms, and of the last one before its third
#: rearrangement.
EARLIER = {
    "2026-11-23": {
        "files": "739",
        "lines": "88,460",
        "files in the largest folder": "151 (core)",
        "functions per 1,000 lines": "68",
        "dataclasses among classes": "47 %",
        "public classes defined more than once": "76",
        "public functions defined more than once": "147",
        "imports between files": "4,034",
        "files in import cycles": "36",
    },
    "2026-11-29": {
        "files": "662",
        "lines": "126,050",
        "files in the largest folder": "26 (cli/commands)",
        "functions per 1,000 lines": "63",
        "dataclasses among classes": "39 %",
        "public classes defined more than once": "0",
        "public functions defined more than once": "23",
        "imports between files": "4,425",
        "files in import cycles": "11",
    },
}


def read_sources(package: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}


def figures(package: Path) -> dict[str, str]:
    """What this script counts, by name, as text."""
    sources = read_sources(package)
    trees = {path: ast.parse(text) for path, text in sources.items()}
    lines = sum(text.count("\n") for text in sources.values())
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes)
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    rooms = Counter(path.parent for path in sources if path.name != "__init__.py")
    (room, largest) = rooms.most_common(1)[0]
    return {
        "files": f"{len(sources):,}",
        "lines": f"{lines:,}",
        "files in the largest folder": f"{largest} ({room.relative_to(package)})",
        "functions per 1,000 lines": f"{1000 * functions / lines:.0f}",
        "dataclasses among classes": f"{100 * sum(map(_is_dataclass, classes)) / len(classes):.0f} %",
        "public classes defined more than once": str(len(repeated(trees.values(), ast.ClassDef))),
        "public functions defined more than once": str(len(repeated(trees.values(), ast.FunctionDef))),
        "imports between files": f"{sum(map(len, imports(package, trees).values())):,}",
        "files in import cycles": str(sum(map(len, cycles(runs(package, trees))))),
    }


def repeated(trees: Iterable[ast.Module], kind: type[ast.AST]) -> list[str]:
    """Names that several modules define at their top level, without those that begin with an underscore."""
    names = Counter(
        node.name  # type: ignore[attr-defined]
        for tree in trees
        for node in tree.body
        if isinstance(node, kind) and not node.name.startswith("_")  # type: ignore[attr-defined]
    )
    return sorted(name for name, count in names.items() if count > 1)


def imports(package: Path, trees: Mapping[Path, ast.Module]) -> dict[Path, set[Path]]:
    """Which file imports which, inside functions too, but not for annotations alone."""
    modules = {_module(package, path): path for path in trees}
    graph: dict[Path, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for module, name in _imported(tree):
            found = modules.get(f"{module}.{name}") or modules.get(module)
            if found and found != path:
                graph[path].add(found)
    return graph


def runs(package: Path, trees: Mapping[Path, ast.Module]) -> dict[Path, set[Path]]:
    """Which files an import in a file runs, if they have not run: the circles are those of this graph.

    `import a.b.c` runs `a/__init__.py`, `a/b/__init__.py` and `a/b/c.py`, and so does `from a.b import c`. Not counted
    is the `__init__.py` of a package that contains the importing file, because Python has begun it before this file,
    unless the file imports a name from it: which names it has by then depends on what was imported first. Without a
    circle, every file that an import names has run to its end, whichever file is imported first.
    """
    modules = {_module(package, path): path for path in trees}
    graph: dict[Path, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        own = _module(package, path)
        for module, name in _imported(tree):
            imported = f"{module}.{name}" if f"{module}.{name}" in modules else module
            names = {each for each in _packages_above(imported) if not own.startswith(f"{each}.")}
            graph[path] |= {modules[each] for each in names | {module, imported} if each in modules} - {path}
    return graph


def cycles(graph: Mapping[Path, set[Path]]) -> list[list[Path]]:
    """Groups of files each of which imports, directly or not, all others of the group. Tarjan's algorithm."""
    index: dict[Path, int] = {}
    lowest: dict[Path, int] = {}
    stack: list[Path] = []
    found: list[list[Path]] = []

    def visit(path: Path) -> None:
        index[path] = lowest[path] = len(index)
        stack.append(path)
        for each in sorted(graph.get(path, ())):
            if each not in index:
                visit(each)
            if each in stack:
                lowest[path] = min(lowest[path], lowest[each])
        if lowest[path] == index[path]:
            group = stack[stack.index(path) :]
            del stack[stack.index(path) :]
            if len(group) > 1:
                found.append(group)

    sys.setrecursionlimit(10_000)
    for path in sorted(graph):
        if path not in index:
            visit(path)
    return found


def _module(package: Path, path: Path) -> str:
    name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _packages_above(module: str) -> list[str]:
    """`a` and `a.b` of `a.b.c`."""
    names = module.split(".")
    return [".".join(names[:i]) for i in range(1, len(names))]


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name) of every `from module import name`, and (module, "") of every `import module`."""
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements, those in others too, but not those for annotations alone."""
    for node in nodes:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):  # a lambda's body is an expression
                yield from _statements(inner)


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def check() -> int:
    """Name the files that import each other in a circle. Returns the exit code."""
    found = cycles(runs(PACKAGE, {path: ast.parse(text) for path, text in read_sources(PACKAGE).items()}))
    for group in found:
        names = sorted(path.relative_to(PACKAGE.parent).as_posix() for path in group)
        sys.stderr.write(f"these files import each other in a circle: {', '.join(names)}\n")
    return 1 if found else 0


def main() -> int:
    gc.disable()  # the trees stay until the end, and searching them for garbage would take most of the time
    if sys.argv[1:] == ["--check"]:
        return check()
    columns = {**EARLIER, "now": figures(PACKAGE)}
    names = columns["now"]
    width = max(map(len, names))
    sys.stdout.write(f"{'':{width}}{''.join(f'{day:>19}' for day in columns)}\n")
    for name in names:
        sys.stdout.write(f"{name:{width}}{''.join(f'{column[name]:>19}' for column in columns.values())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
