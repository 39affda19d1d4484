"""docs/cli.md: every command with what it takes, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dynamo_operator.cli.command_tree import Command, Flag, command_tree
from dynamo_operator.cli.commands import COMMANDS, parser

PAGE: Final = "docs/cli.md"

_SETTINGS: Final = "settings"
_CLUSTER: Final = "cluster"

_BEGINNING: Final = """\
<!-- Made by hack/generate; do not edit. -->
# The command line

`dynamo-operator COMMAND`, or `kubectl dgdr COMMAND` where kubectl finds the executable
`kubectl-dgdr`. `--help` after any command says what stands here. What went wrong is told in one
line on standard error; `--debug` before the command shows the traceback as well.

Colours and lines that change are for terminals; elsewhere there are plain lines. `NO_COLOR=1` takes
the colours, `TERM=dumb` both. `-o json` and `-o yaml` are for programs, `-o name` for other
commands, `-o wide` has more columns.

## The cluster

Every command that talks to a cluster takes `--kubeconfig FILE` and `--context NAME`, and where
objects have a namespace `-n`, `--namespace`. The cluster is that of `--kubeconfig`, `$KUBECONFIG`,
the Pod that the command runs in, or `~/.kube/config`, in this order.

## Exit codes

| code | meaning |
|---|---|
| 0 | done; of `run watch`: the search succeeded; of `doctor`: no problem was found |
| 1 | failed: the cluster refused or is not there, the search failed, a problem was found |
| 2 | the call or its input is wrong; of `request validate`: a Request would be refused |
| 129, 130, 143 | ended by SIGHUP, SIGINT (Ctrl-C), SIGTERM |
| 141 | nobody read its output any more |

## Completion

    source <(dynamo-operator completion bash)            # in ~/.bashrc
    source <(dynamo-operator completion zsh)             # in ~/.zshrc, after compinit
    dynamo-operator completion fish | source             # in ~/.config/fish/config.fish

Commands, flags, their values, and the names of objects in the cluster are completed.
`kubectl dgdr` is completed by kubectl's own completion, which finds `kubectl_complete-dgdr` on the
PATH.
"""


def cli_reference() -> str:
    """Return the text of the page."""
    tree = command_tree(parser(None))
    sections = [_section(command) for command in tree.all() if len(command.words) > 1]
    return "\n".join([_BEGINNING, *("\n".join(section) for section in sections)])


def _section(command: Command) -> Iterator[str]:
    _, *words = command.words
    level = "##" if len(words) == 1 else "###"
    yield f"{level} {' '.join(words)}\n"
    yield f"{command.description or _sentence(COMMANDS[words[-1]])}\n"
    if command.commands:
        return
    yield f"    {_usage(command)}\n"
    rows = [(each.shown, each.meaning) for each in command.positionals] + [
        (_spelled(flag), flag.meaning) for flag in _own_flags(command)
    ]
    if rows:
        yield "| argument | meaning |\n|---|---|"
        yield from (f"| `{_cell(name)}` | {_cell(meaning)} |" for name, meaning in rows)
        yield ""
    if any(flag.group == _SETTINGS for flag in command.flags):
        yield "[configuration.md](configuration.md) has all settings.\n"
    if command.epilog:
        yield f"{command.epilog.strip()}\n"


def _usage(command: Command) -> str:
    places = [each.shown if each.is_required else f"[{each.shown}]" for each in command.positionals]
    needed = [_spelled(flag) for flag in command.flags if flag.is_required]
    return " ".join([*command.words, *places, *needed, "[flags]"])


def _own_flags(command: Command) -> list[Flag]:
    return [flag for flag in command.flags if flag.group not in (_SETTINGS, _CLUSTER)]


def _spelled(flag: Flag) -> str:
    return f"{', '.join(flag.names)} {flag.value}".rstrip()


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
