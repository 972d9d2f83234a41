"""Help with the options of a command in sections: first those that a new user needs, last those of every command."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from typer.core import TyperCommand

#: Names of the options that every command has.
_COMMON = ("json", "quiet", "no_color", "no_input", "yes", "debug", "config", "allow_path", "help")

#: Title of a section -> the names of its options.
Sections = Mapping[str, tuple[str, ...]]


class SectionedCommand(TyperCommand):
    """A command whose help has its options in sections. Options in none of `sections` come first."""

    sections: Sections = MappingProxyType({})

    def format_options(self, ctx: Any, formatter: Any) -> None:
        titles = {name: title for title, names in self.sections.items() for name in names}
        titles |= dict.fromkeys(_COMMON, "Options of every command")
        order = ("Arguments", "Options", *self.sections, "Options of every command")
        found: dict[str, list[tuple[str, str]]] = {title: [] for title in order}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None:
                is_argument = each.param_type_name == "argument"
                found["Arguments" if is_argument else titles.get(each.name or "", "Options")].append(record)
        for title, records in found.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def with_sections(sections: Sections) -> type[SectionedCommand]:
    """The class of a command whose help has these sections."""
    return type("SectionedCommand", (SectionedCommand,), {"sections": sections})
