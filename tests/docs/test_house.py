"""The figures of the package's structure, and of what its journeys cost."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.pages import load_script

FACE = {"a/__init__.py": "from p.a.one import x", "a/one.py": "from p.a.two import x", "a/two.py": "x = 1"}


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        pytest.param(FACE, set(), id="full names within the package"),
        pytest.param(FACE | {"b.py": "from p.a import x"}, set(), id="a user of the package's names"),
        pytest.param(
            {"one.py": "from p.two import x", "two.py": "from p.one import y"}, {"one.py", "two.py"}, id="files"
        ),
        pytest.param(
            {"b.py": "def f():\n    import p.c", "c.py": "from p.b import y"},
            {"b.py", "c.py"},
            id="an import inside a function",
        ),
        pytest.param(
            FACE | {"a/two.py": "from p.a import x"},
            {"a/__init__.py", "a/one.py", "a/two.py"},
            id="a name from the file's own package",
        ),
        pytest.param(
            FACE | {"a/one.py": "from p.a import two"},
            {"a/__init__.py", "a/one.py"},
            id="a module from the file's own package",
        ),
        pytest.param(
            FACE | {"a/two.py": "from p.b import x", "b.py": "from p.a.three import x", "a/three.py": "x = 1"},
            {"a/__init__.py", "a/one.py", "a/two.py", "b.py"},
            id="a file beside the package, which imports a module of it",
        ),
        pytest.param(
            FACE
            | {"a/two.py": "from p.b.one import x", "a/three.py": "x = 1"}
            | {"b/__init__.py": "from p.b.two import x", "b/one.py": "x = 1", "b/two.py": "from p.a.three import x"},
            {"a/__init__.py", "a/one.py", "a/two.py", "b/__init__.py", "b/two.py"},
            id="two packages that import each other's names",
        ),
        pytest.param(
            FACE
            | {"a/one.py": "from p.a.c.one import x", "a/c/__init__.py": "from p.a.two import x"}
            | {"a/c/one.py": "x = 1"},
            set(),
            id="a package within the package",
        ),
        pytest.param(
            {"b.py": "if TYPE_CHECKING:\n    from p.c import x", "c.py": "from p.b import y"},
            set(),
            id="an import for annotations",
        ),
    ],
)
def test_check_finds_circles_of_imports(files: Mapping[str, str], circle: set[str]) -> None:
    house = load_script("house")
    package = Path("/somewhere/p")
    trees = {package / name: ast.parse(text) for name, text in {"__init__.py": "", **files}.items()}

    found = house.cycles(house.runs(package, trees))

    assert [{path.relative_to(package).as_posix() for path in group} for group in found] == ([circle] if circle else [])


def test_journeys_of_commands_are_measured(tmp_path: Path) -> None:
    journeys = load_script("house_journeys")
    recorder = journeys.Recorder()

    costs = journeys.measure(journeys.command_journeys(tmp_path), recorder)

    assert set(costs) < set(journeys.BEFORE)
    assert all(min(cost[:-1]) > 0 for cost in costs.values())  # some journeys parse no dataset.yaml
    assert {name: cost.connections for name, cost in costs.items()} == {
        name: connections for name, (_, _, connections, _, _) in journeys.MOST.items()
    }


def test_journey_that_costs_more_than_it_may_is_named() -> None:
    journeys = load_script("house_journeys")
    costs = {name: journeys.Cost(1, 1, *limits) for name, limits in journeys.MOST.items()}
    assert journeys.excess(costs) == []
    costs["inspect"] = costs["inspect"]._replace(opens=costs["inspect"].opens + 1)
    assert journeys.excess(costs) == [f"inspect: opens {costs['inspect'].opens}, at most {costs['inspect'].opens - 1}"]
