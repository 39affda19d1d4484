"""What the commands are and take, as plain values: for the documentation and for completion."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag.

    Args:
        names: its spellings, the longest last.
        value: what stands for its value; "" when it takes none.
        choices: the values that there are; empty for any.
        meaning: what it does.
        group: the heading that it stands under.
        is_required: whether the command needs it.
    """

    names: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    meaning: str
    group: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Positional:
    """What stands in a place; `name` is the argument's, `shown` how help writes it."""

    name: str
    shown: str
    choices: tuple[str, ...]
    meaning: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or a group of commands.

    Args:
        words: how it is called, the program first.
        description: what it does.
        flags: without --help.
        positionals: in order.
        commands: the commands below it, by their word.
        epilog: what else is to be known.
    """

    words: tuple[str, ...]
    description: str
    flags: tuple[Flag, ...]
    positionals: tuple[Positional, ...]
    commands: Mapping[str, Command] = field(default_factory=dict)
    summaries: Mapping[str, str] = field(default_factory=dict)
    epilog: str = ""

    def all(self) -> Iterator[Command]:
        """Yield it and all below it."""
        yield self
        for command in self.commands.values():
            yield from command.all()


def command_tree(parser: argparse.ArgumentParser, words: Sequence[str] = ()) -> Command:
    """Return what a parser says.

    Args:
        parser: of the program, or of a command.
        words: how that is called; default the parser's own name.
    """
    called = (*words,) or (parser.prog,)
    flags: list[Flag] = []
    positionals: list[Positional] = []
    commands: dict[str, Command] = {}
    summaries: dict[str, str] = {}
    for group in parser._action_groups:  # noqa: SLF001 - argparse tells what it has nowhere else
        for action in group._group_actions:  # noqa: SLF001 - as above
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
                summaries |= {
                    each.dest: each.help or ""
                    for each in action._choices_actions  # noqa: SLF001 - as above
                }
                commands |= {
                    name: command_tree(each, (*called, name))
                    for name, each in action.choices.items()
                }
            elif not action.option_strings:
                positionals.append(_positional(action, parser))
            elif not isinstance(action, argparse._HelpAction):  # noqa: SLF001 - as above
                flags.append(_flag(action, parser, group.title or ""))
    return Command(
        called,
        parser.description or "",
        tuple(flags),
        tuple(positionals),
        commands,
        summaries,
        parser.epilog or "",
    )


def _flag(action: argparse.Action, parser: argparse.ArgumentParser, group: str) -> Flag:
    takes_value = action.nargs != 0
    shown = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    choices = tuple(map(str, action.choices or ()))
    value = (shown if action.metavar or not choices else "|".join(choices)) if takes_value else ""
    names = tuple(sorted(action.option_strings, key=len))
    return Flag(names, value, choices, _meaning(action, parser), group, action.required)


def _positional(action: argparse.Action, parser: argparse.ArgumentParser) -> Positional:
    shown = action.metavar if isinstance(action.metavar, str) else action.dest
    choices = tuple(map(str, action.choices or ()))
    meaning = _meaning(action, parser)
    return Positional(action.dest, shown, choices, meaning, action.nargs != argparse.OPTIONAL)


def _meaning(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Return the help with its placeholders filled in, as argparse does."""
    values = {**vars(action), "prog": parser.prog}
    if action.choices is not None:
        values["choices"] = ", ".join(map(str, action.choices))
    return (action.help or "") % values
