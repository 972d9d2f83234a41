"""What each test asserts, read from the syntax trees of the suite. No test runs, and no module is imported."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeAlias

HYPOTHESIS_EXAMPLES = 100  # the default of `max_examples`

#: A number that may depend on unknown lengths: a sum of products, as coefficients by the texts of the unknown factors.
Size: TypeAlias = "Counter[tuple[str, ...]]"
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
#: Kinds of assertions (`assert`, `raises`, `warns`), and how often a run evaluates each.
Found: TypeAlias = "list[tuple[str, Size]]"

_SAME_LENGTH = {"sorted", "list", "tuple", "set", "frozenset", "dict", "reversed", "enumerate", "zip", "iter"}
_KINDS = {"raises": "raises", "warns": "warns", "deprecated_call": "warns", "fail": "assert"}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def size_of(number: int) -> Size:
    return Counter({(): number})


def total(sizes: Iterable[Size]) -> Size:
    return sum(sizes, start=Counter())


def product(*sizes: Size) -> Size:
    result = size_of(1)
    for size in sizes:
        terms = [(tuple(sorted(a + b)), m * n) for a, m in result.items() for b, n in size.items()]
        result = total(Counter({unknown: number}) for unknown, number in terms)
    return result


@dataclass(frozen=True, slots=True)
class SuiteTest:
    file: str
    name: str
    cases: Size
    items: Size  # of the longest loop that asserts
    kinds: Counter[str]  # how often each kind of assertion is in the test and in its helpers
    checks: Size
    slow: int  # how many marks `slow`
    body: Sequence[ast.stmt] = field(repr=False, compare=False)

    @property
    def rule(self) -> str:
        return self.name.rpartition("::")[2].removeprefix("test_").replace("_", " ")

    def tokens(self) -> list[str]:
        """The names, words and signs of the body, without its comments and docstring."""
        match self.body:
            case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                body = rest
            case _:
                body = [*self.body]
        return re.findall(r"\w+|[^\w\s]", "\n".join(map(ast.unparse, body)))


class Module:
    """The names that a file of the suite defines or imports."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.definitions: dict[str, Function | ast.ClassDef] = {}
        self.imports: dict[str, tuple[str, str]] = {}  # file and name
        assigned: dict[str, list[ast.expr]] = defaultdict(list)
        tree = ast.parse(text)
        for node in _top_level(tree.body):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.definitions[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    assigned[ast.unparse(target)].append(node.value)
        for inner in ast.walk(tree):
            if isinstance(inner, ast.ImportFrom) and inner.module:
                source = inner.module.replace(".", "/")
                self.imports.update({each.asname or each.name: (source, each.name) for each in inner.names})
        self.constants = {name: values[0] for name, values in assigned.items() if len(values) == 1}


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _top_level([*node.body, *node.orelse])


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a function sees: those of its module, its own (`local`), and the values that it assigns once."""

    module: Module
    constants: Mapping[str, ast.expr] = field(default_factory=dict)
    local: frozenset[str] = frozenset()


class Suite:
    """All files below `tests`, as texts by their path from the root."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.modules = {file: Module(file, text) for file, text in sorted(sources.items())}
        self._in_helpers: dict[tuple[str, str], Found] = {}  # by file and name of the helper

    def tests(self) -> list[SuiteTest]:
        return [
            self._read_test(module, node, prefix, class_marks)
            for module in self.modules.values()
            if PurePosixPath(module.file).name.startswith("test_")
            for node, prefix, class_marks in _test_functions(module)
        ]

    def _read_test(self, module: Module, node: Function, prefix: str, class_marks: Sequence[ast.expr]) -> SuiteTest:
        scope = _scope_of(module, node)
        found = list(self._visit_all(node.body, scope, size_of(1)))
        kinds = Counter(kind for kind, _ in found)
        if not found:  # The test checks that nothing is raised.
            loops = [each.iter for each in ast.walk(node) if isinstance(each, ast.For)]
            found = [("", self._length(each, scope)) for each in loops] or [("", size_of(1))]
        marks = self._marks([*node.decorator_list, *class_marks, *_module_marks(module)], module)
        cases = self._cases(node, marks, scope)
        items = max((size for _, size in found), key=lambda size: size[()])
        checks = product(cases, total(size for _, size in found))
        slow = sum(ast.unparse(mark).count("pytest.mark.slow") for mark in marks)
        return SuiteTest(module.file, prefix + node.name, cases, items, kinds, checks, slow, node.body)

    def _resolve(self, module: Module, name: str) -> tuple[Module, str] | None:
        """The module that defines the name, and its name there, or None if no file of the suite does."""
        if name in module.definitions or name in module.constants:
            return module, name
        if name not in module.imports:
            return None
        path, original = module.imports[name]
        source = self.modules.get(f"{path}.py") or self.modules.get(f"{path}/__init__.py")
        return self._resolve(source, original) if source else None

    def _length(self, node: ast.expr, scope: Scope) -> Size:  # noqa: PLR0911 - a case for each kind of expression
        match node:
            case ast.List() | ast.Tuple() | ast.Set():
                each = [self._length(e.value, scope) if isinstance(e, ast.Starred) else size_of(1) for e in node.elts]
                return total(each)
            case ast.Constant(value=str() | bytes() as text):
                return size_of(len(text))
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                return total(size_of(1) if key else self._length(value, scope) for key, value in pairs)
            case ast.BinOp(op=ast.Add()):
                return total([self._length(node.left, scope), self._length(node.right, scope)])
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                if not any(each.ifs for each in node.generators):
                    return product(*(self._length(each.iter, scope) for each in node.generators))
            case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[counted])]):
                return self._length(counted, scope)
            case ast.Call(func=ast.Name(id="range"), args=limits):
                numbers = [value for each in limits if isinstance(value := self._value(each, scope), int)]
                if len(numbers) == len(limits):
                    return size_of(len(range(*numbers)))
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _SAME_LENGTH:
                return self._length(first, scope)
            case ast.Call(func=ast.Attribute(value=mapping, attr="keys" | "values" | "items"), args=[]):
                return self._length(mapping, scope)
            case ast.Name(id=name) if name in scope.constants:
                others = {key: value for key, value in scope.constants.items() if key != name}
                return self._length(scope.constants[name], Scope(scope.module, others, scope.local))
            case ast.Name(id=name) if name not in scope.local and (place := self._resolve(scope.module, name)):
                if value := place[0].constants.get(place[1]):
                    return self._length(value, Scope(place[0]))
        is_local = any(isinstance(each, ast.Name) and each.id in scope.local for each in ast.walk(node))
        return Counter({("?" if is_local else ast.unparse(node),): 1})

    def _value(self, node: ast.expr, scope: Scope) -> Any:
        if isinstance(node, ast.Name) and (place := self._resolve(scope.module, node.id)):
            node = place[0].constants.get(place[1], node)
        try:
            return ast.literal_eval(node)
        except ValueError:
            return None

    def _visit_all(self, nodes: Iterable[ast.AST], scope: Scope, times: Size) -> Iterator[tuple[str, Size]]:
        for node in nodes:
            yield from self._visit(node, scope, times)

    def _visit(self, node: ast.AST, scope: Scope, times: Size) -> Iterator[tuple[str, Size]]:
        """The assertions below a node, and in the helpers that it names."""
        children = list(ast.iter_child_nodes(node))
        match node:
            case ast.For() | ast.AsyncFor():
                yield from self._visit_all([node.iter, *node.orelse], scope, times)
                children, times = [*node.body], product(times, self._length(node.iter, scope))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                lengths = [self._length(each.iter, scope) for each in node.generators if not each.ifs]
                times = product(times, *lengths)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                children = [*node.body]
            case ast.AnnAssign():
                children = [node.value] if node.value else []
            case ast.Assert():
                inner = [self._length(e, scope)[()] for e in ast.walk(node.test) if isinstance(e, _COMPREHENSIONS)]
                yield "assert", product(times, size_of(max([1, *inner])))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr=name)) if name in _KINDS:
                yield _KINDS[name], times
            case ast.Call(func=ast.Attribute(attr=name)) if name.startswith("assert_"):
                yield "assert", times  # such as torch.testing.assert_close
            case ast.Name(id=name) if name not in scope.local and (place := self._resolve(scope.module, name)):
                yield from ((kind, product(times, size)) for kind, size in self._in_helper(*place))
        yield from self._visit_all(children, scope, times)

    def _in_helper(self, module: Module, name: str) -> Found:
        """The assertions in a function or class of the suite. A helper that calls itself counts once."""
        key = (module.file, name)
        if key not in self._in_helpers:
            self._in_helpers[key] = []
            if node := module.definitions.get(name):
                self._in_helpers[key] = list(self._visit_all(node.body, _scope_of(module, node), size_of(1)))
        return self._in_helpers[key]

    def _marks(self, marks: Iterable[ast.expr], module: Module) -> list[ast.expr]:
        places = [(mark, self._resolve(module, mark.id) if isinstance(mark, ast.Name) else None) for mark in marks]
        return [place[0].constants.get(place[1], mark) if place else mark for mark, place in places]

    def _cases(self, node: Function, marks: Iterable[ast.expr], scope: Scope) -> Size:
        factors: list[Size] = []
        parametrised: set[str] = set()
        used = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
        calls = [mark for mark in marks if isinstance(mark, ast.Call)]
        names = [ast.unparse(mark.func).rpartition(".")[2] for mark in calls]
        drawn = HYPOTHESIS_EXAMPLES
        for name, mark in zip(names, calls, strict=True):
            keywords = {each.arg: each.value for each in mark.keywords}
            if name == "parametrize":
                arguments = self._value(mark.args[0], scope)
                parametrised |= {*(re.findall(r"\w+", arguments) if isinstance(arguments, str) else arguments or ())}
                values = mark.args[1] if len(mark.args) > 1 else keywords["argvalues"]
                factors.append(self._length(values, Scope(scope.module)))
            elif name == "usefixtures":
                used += [str(self._value(each, scope)) for each in mark.args]
            elif name == "settings" and "max_examples" in keywords:
                drawn = self._value(keywords["max_examples"], scope) or drawn
        if "given" in names:
            factors.append(size_of(drawn + names.count("example")))
        return product(*factors, *self._params(scope.module, used, parametrised))

    def _params(self, module: Module, used: Iterable[str], seen: set[str]) -> Iterator[Size]:
        """The number of `params` of each fixture that these names need."""
        folders = [str(folder) for folder in PurePosixPath(module.file).parents]
        conftests = [self.modules[file] for each in folders if (file := f"{each}/conftest.py") in self.modules]
        for name in used:
            source, original = next(
                (place for each in (module, *conftests) if (place := self._resolve(each, name))), (module, name)
            )
            fixture = source.definitions.get(original)
            if name in seen or not isinstance(fixture, ast.FunctionDef):
                continue
            seen.add(name)
            for mark in fixture.decorator_list:
                values = [each.value for each in getattr(mark, "keywords", ()) if each.arg == "params"]
                yield from (self._length(each, Scope(source)) for each in values)
            yield from self._params(source, [each.arg for each in fixture.args.args], seen)


def _scope_of(module: Module, node: Function | ast.ClassDef) -> Scope:
    local: set[str] = set()
    assigned: dict[str, ast.expr] = {}
    stored: Counter[str] = Counter()
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            local.add(each.arg)
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            stored[each.id] += 1
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            assigned[each.targets[0].id] = each.value
    once = {name: value for name, value in assigned.items() if stored[name] == 1}
    return Scope(module, once, frozenset({*local, *stored}))


def _test_functions(module: Module) -> Iterator[tuple[Function, str, Sequence[ast.expr]]]:
    for name, node in module.definitions.items():
        if not isinstance(node, ast.ClassDef):
            if name.startswith("test"):
                yield node, "", ()
        elif name.startswith("Test"):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            yield from ((each, f"{name}::", node.decorator_list) for each in methods if each.name.startswith("test"))


def _module_marks(module: Module) -> Sequence[ast.expr]:
    marks = module.constants.get("pytestmark")
    return marks.elts if isinstance(marks, ast.List) else [marks] if marks else []
