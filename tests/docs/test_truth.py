"""What the documentation names exists, and what exists is documented."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import wdsctl.loader
from tests import sources
from tests.docs.pages import PAGES, ROOT, name_of, prose
from wdsctl.core import errors
from wdsctl.core.codes import load_codes
from wdsctl.core.errors import WdsctlError
from wdsctl.core.version import VERSION

DECISIONS = ROOT / "docs" / "decisions"

#: The base of all errors, which is never raised itself.
BASE_CODE = "WDS000"

#: The guide to the loader: its own pages, and the pages about related topics.
GUIDE = "\n".join(
    path.read_text(encoding="utf-8")
    for path in (
        *sorted((ROOT / "docs" / "loader").glob("*.md")),
        *(ROOT / "docs" / name for name in ("packing.md", "polylithic.md", "media.md", "configuration.md")),
    )
)

ERRORS = {
    name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, WdsctlError)
}


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_named_on_page_exist(page: Path) -> None:
    paths = re.findall(r"`((?:wdsctl|tests|docs|examples|benchmarks)/[\w./-]+)`", prose(page))

    assert [path for path in paths if not path.isupper() and "NAME" not in path and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_codes_named_on_page_exist(page: Path) -> None:
    assert set(re.findall(r"WDS\d{3}", page.read_text(encoding="utf-8"))) <= set(load_codes())


def test_every_code_is_used_and_every_used_code_exists() -> None:
    used = {code for text in sources.texts().values() for code in re.findall(r"WDS\d{3}", text)}

    assert used - {BASE_CODE} == set(load_codes())


def test_codes_are_in_order() -> None:
    assert list(load_codes()) == sorted(load_codes())


def test_every_error_class_has_documented_code() -> None:
    assert {error.code for error in ERRORS.values() if error is not WdsctlError} <= set(load_codes())


def error_calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call in the package that creates an error by its class name, with its location."""
    for module, call, name in sources.calls(*(f"{each}(" for each in ERRORS)):
        if name in ERRORS:
            yield f"wdsctl/{module}:{call.lineno}", call


def test_every_error_is_created_with_hint() -> None:
    places = list(error_calls())

    assert len(places) > 50
    for place, call in places:
        hints = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
        assert hints, f"{place}: no hint"
        assert not isinstance(hints[0], ast.Constant) or hints[0].value, f"{place}: an empty hint"


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_error_class_requires_hint(name: str) -> None:
    with pytest.raises(TypeError, match="hint"):
        ERRORS[name]("something is wrong")  # type: ignore[call-arg]


@pytest.mark.parametrize("name", wdsctl.loader.__all__)
def test_every_public_name_of_loader_is_in_guide(name: str) -> None:
    assert re.search(rf"\b{name}\b", GUIDE)


@pytest.mark.parametrize("function", [wdsctl.loader.get_train_dataset, wdsctl.loader.get_val_dataset])
def test_every_dataset_argument_is_in_guide(function: Callable[..., object]) -> None:
    assert [name for name in inspect.signature(function).parameters if name != "path" and f"`{name}" not in GUIDE] == []


def test_guide_index_links_to_every_page() -> None:
    index = (ROOT / "docs" / "loader.md").read_text(encoding="utf-8")

    assert [path.name for path in (ROOT / "docs" / "loader").glob("*.md") if f"(loader/{path.name})" not in index] == []


def test_changelog_has_version_of_package() -> None:
    assert f"## [{VERSION}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_decisions_are_numbered_and_have_all_sections() -> None:
    pages = sorted(DECISIONS.glob("0*.md"))

    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for number, page in enumerate(pages, 1):
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {number}. ")
        assert re.findall(r"\*\*(Context|Decision|What we gave up)\.\*\*", text) == [
            "Context",
            "Decision",
            "What we gave up",
        ]


def test_index_of_decisions_has_each_once_with_its_title_and_mark() -> None:
    listed = re.findall(
        r"^- (\d+)\. \[(.*)\]\((.*)\)(?:, (superseded(?: in part)?)\b.*)?$",
        (DECISIONS / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )

    assert sorted((name, f"# {number}. {title}", mark) for number, title, name, mark in listed) == sorted(
        (page.name, page.read_text(encoding="utf-8").partition("\n")[0], mark_of_decision(page))
        for page in DECISIONS.glob("0*.md")
    )


def mark_of_decision(page: Path) -> str:
    """`superseded` or `superseded in part`, if the first line of the page says so."""
    mark = re.match(r"# .+\n\n\*\*(Superseded(?: in part)?)\*\*", page.read_text(encoding="utf-8"))
    return mark[1].lower() if mark else ""


@functools.cache
def words_of_package() -> frozenset[str]:
    texts = [*sources.texts().values(), (ROOT / "pyproject.toml").read_text(encoding="utf-8")]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


@functools.cache
def modules_of_repository() -> frozenset[str]:
    """Every module with some of its folders: `wdsctl/core/files.py` is in it, and `core/files.py`, and `files.py`."""
    folders = ("wdsctl", "tests", "docs", "benchmarks", "examples")
    paths = [path.relative_to(ROOT).parts for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return frozenset("/".join(parts[i:]) for parts in paths for i in range(len(parts)))


def test_modules_named_in_docstrings_and_comments_exist() -> None:
    written = {path for text in sources.texts().values() for path in re.findall(r"`([\w./]+/[\w./]+\.py)`", text)}

    assert sorted(written - modules_of_repository()) == []


#: Names of other projects, and of examples.
FOREIGN_NAMES = {"limit_val_batches", "resize_", "unsupported_byte_offset", "CURSOR_TRACE_ID"}
FOREIGN_NAMES |= {"IMG_2024_01_07.jpg", "a_b.jpg", "jupyter_client", "multiprocessing.py", "lengths.py"}


@pytest.mark.parametrize(
    "page",
    [
        *(page for page in sorted(DECISIONS.glob("0*.md")) if mark_of_decision(page) != "superseded"),
        *(ROOT / "docs" / name for name in ("architecture.md", "internals.md")),
    ],
    ids=name_of,
)
def test_names_of_code_on_page_exist(page: Path) -> None:
    found = {span for span in re.findall(r"`([^`\s]+)`", prose(page)) if span not in FOREIGN_NAMES}
    modules = {span for span in found if span.endswith(".py")}
    # A name of ours has an underscore or a capital within; other words may mean anything.
    dotted = {span.removesuffix("()") for span in found - modules if re.fullmatch(r"[A-Za-z_][\w.]*(\(\))?", span)}
    names = {name for span in dotted for name in span.split(".") if re.search(r"\w_\w|[a-z][A-Z]", name)}

    assert sorted(modules - modules_of_repository()) == []
    assert sorted(names - words_of_package()) == []
