"""Whether a coding agent runs the command: it then gets TSV and JSON in place of text for people (`Output.answer`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

#: Variables that coding agents set for the commands they run -> the values that count, or empty for any value.
#: docs/decisions/0052-agents-get-tables-and-json.md has the source of each.
AGENT_VARIABLES: Mapping[str, frozenset[str]] = {
    "AI_AGENT": frozenset(),  # a common name, for any agent
    "AGENT": frozenset({"amp", "goose"}),  # other programs use this word, too
    "CLAUDECODE": frozenset(),
    "CLINE_ACTIVE": frozenset(),
    "CODEX_SANDBOX": frozenset(),
    "CODEX_THREAD_ID": frozenset(),
    "CURSOR_AGENT": frozenset(),
    "GEMINI_CLI": frozenset(),
    "GOOSE_TERMINAL": frozenset(),
    "OPENCODE": frozenset(),
}
#: `0`: print text for people whatever an agent sets; `1`: answer as to an agent.
AGENT_SWITCH = "WDSCTL_AGENT"
_OFF = frozenset({"", "0", "false"})


def is_for_agent() -> bool:
    """Whether stdout is read by a coding agent: an agent's variable is set, and stdout is not a terminal."""
    return not sys.stdout.isatty() and has_agent(os.environ)


def has_agent(variables: Mapping[str, str]) -> bool:
    """Whether the environment is that of a coding agent. `WDSCTL_AGENT` decides before the variables of agents."""
    switch = variables.get(AGENT_SWITCH, "")
    if switch:
        return switch not in _OFF
    for name, accepted in AGENT_VARIABLES.items():
        value = variables.get(name, "")
        if value in accepted if accepted else value not in _OFF:
            return True
    return False
