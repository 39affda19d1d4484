"""Shell completion: scripts that ask this program, and its answers."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.cli.command_tree import Command, Flag, command_tree
from dynamo_operator.runtime.builtin_kinds import Namespace
from dynamo_operator.runtime.client import Client, ClientConfig, ClientError
from informers.objects import ResourceType

FILES: Final = ":files"
"""The answer that leaves it to the shell to complete a file."""

Answer = tuple[str, str]
"""A word, and what it means."""

_PATIENCE_SECONDS: Final = 2.0
_NAMESPACE: Final = "--namespace"
# What a shell would take apart or run is not offered, whoever named an object or a context so.
_SAFE: Final = re.compile(r"[A-Za-z0-9._:/@=+-]+")

_KINDS: Final[dict[str, tuple[ResourceType, ...]]] = {
    "name": (DynamoGraphDeploymentRequest.resource_type, DynamoGraphDeploymentRun.resource_type),
    "search": (DynamoGraphDeploymentRequest.resource_type, DynamoGraphDeploymentRun.resource_type),
    "request": (DynamoGraphDeploymentRequest.resource_type,),
    "candidate": (DynamoGraphDeploymentCandidate.resource_type,),
    "other": (DynamoGraphDeploymentCandidate.resource_type,),
}
"""Whose names stand in a place, by the argument's name."""

_BASH: Final = r"""_dynamo_operator() {
    local line words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == ":files" ]]; then
            compopt -o default
        else
            COMPREPLY+=("${line%%$'\t'*}")
        fi
    done < <(dynamo-operator __complete -- "${words[@]}" 2>/dev/null)
}
complete -F _dynamo_operator dynamo-operator
"""

_ZSH: Final = r"""#compdef dynamo-operator
_dynamo_operator() {
    local line
    local -a described
    for line in "${(@f)$(dynamo-operator __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == ":files" ]]; then
            _files
            return
        elif [[ -n $line ]]; then
            described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        fi
    done
    _describe 'dynamo-operator' described
}
compdef _dynamo_operator dynamo-operator
"""

_FISH: Final = r"""function __dynamo_operator_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (dynamo-operator __complete -- $words[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c dynamo-operator -f -a '(__dynamo_operator_complete)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what `completion` takes."""
    parser.description = "Print what makes a shell complete this program's commands."
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=run_completion)


def run_completion(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(SCRIPTS[arguments.shell], end="")
    return 0


def run_ask(words: Sequence[str]) -> int:
    """Print the answers for words of which the last is being written."""
    for word, meaning in answers(words):
        print(f"{word}\t{meaning}" if meaning else word)
    return 0


def kubectl_main() -> None:
    """`kubectl_complete-dgdr`: answer kubectl, whose last line says what to do beside."""
    found = [*answers(sys.argv[1:] or [""])]
    directive = 0 if (FILES, "") in found else 4  # the shell's files, or none
    for word, meaning in found:
        if word != FILES:
            print(f"{word}\t{meaning}" if meaning else word)
    print(f":{directive}")


def answers(words: Sequence[str]) -> list[Answer]:
    """Return what the last of the words may become; whatever is wrong, there is just nothing."""
    *before, current = [word for word in words[:-1] if word != "="] + [*words[-1:]] or [""]
    if current == "=":
        current = ""
    # Imported here: the commands know this one.
    from dynamo_operator.cli.commands import parser

    command = command_tree(parser(before))
    places: list[str] = []
    flags: dict[str, str] = {}
    waiting: Flag | None = None
    for word in before:
        if waiting is not None:
            flags[waiting.names[-1]] = word
            waiting = None
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            waiting = _flag(command, name)
            if waiting is not None and (equals or not waiting.value):
                flags[waiting.names[-1]] = value
                waiting = None
        elif command.commands:
            if word not in command.commands:
                return []
            command = command.commands[word]
        else:
            places.append(word)
    offered = _offered(command, flags, waiting, places, current)
    return [
        answer
        for answer in offered
        if answer[0] == FILES or (answer[0].startswith(current) and _SAFE.fullmatch(answer[0]))
    ]


def _offered(
    command: Command, flags: dict[str, str], waiting: Flag | None, places: list[str], current: str
) -> Iterator[Answer]:
    if waiting is not None:
        yield from _values(waiting, flags)
    elif current.startswith("-"):
        name, equals, _ = current.partition("=")
        flag = _flag(command, name)
        if equals and flag is not None:
            values = _values(flag, flags)
            yield from ((f"{name}={value}", told) for value, told in values if value != FILES)
            return
        for each in command.flags:
            if each.names[-1] not in flags:
                yield each.names[-1], each.meaning.partition(";")[0]
    elif command.commands:
        yield from command.summaries.items()
    elif len(places) < len(command.positionals):
        place = command.positionals[len(places)]
        yield from ((choice, "") for choice in place.choices)
        for kind in _KINDS.get(place.name, ()):
            yield from ((name, kind.kind) for name in _names(kind, flags))


def _values(flag: Flag, flags: dict[str, str]) -> Iterator[Answer]:
    name = flag.names[-1]
    if flag.choices:
        yield from ((choice, "") for choice in flag.choices)
    elif name == _NAMESPACE:
        yield from ((each, "") for each in _names(Namespace.resource_type, flags))
    elif name in ("--context", "--from-context"):
        yield from ((each, "") for each in _contexts(flags))
    elif flag.value in ("FILE", "FILENAME", "DIRECTORY", "OUTPUT", "PYTHON"):
        yield FILES, ""


def _flag(command: Command, name: str) -> Flag | None:
    return next((flag for flag in command.flags if name in flag.names), None)


def _names(kind: ResourceType, flags: dict[str, str]) -> list[str]:
    """Return the names of objects in the cluster; none when it does not answer at once."""

    async def ask() -> list[str]:
        config = ClientConfig.load(
            kubeconfig=flags.get("--kubeconfig"), context=flags.get("--context"), environ=os.environ
        )
        async with asyncio.timeout(_PATIENCE_SECONDS), Client.connect(config) as client:
            namespace = flags.get(_NAMESPACE) or client.default_namespace
            found = await client.list(kind, namespace=namespace if kind.namespaced else "")
        return [str(each["metadata"]["name"]) for each in found]

    try:
        return asyncio.run(ask())
    except (ClientError, OSError, TimeoutError, ValueError):
        return []


def _contexts(flags: dict[str, str]) -> list[str]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    paths = flags.get("--kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    names: list[str] = []
    for path in paths.split(os.pathsep):
        try:
            config = YAML(typ="safe", pure=True).load(Path(path).expanduser().read_text())
            names += [str(each["name"]) for each in config["contexts"]]
        except (OSError, ValueError, KeyError, TypeError, YAMLError):
            continue
    return names
