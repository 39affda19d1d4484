from __future__ import annotations

from pathlib import Path

from dynamo_operator.cli.command_tree import command_tree
from dynamo_operator.cli.commands import COMMANDS, parser
from dynamo_operator.cli.reference import PAGE, cli_reference

ROOT = Path(__file__).parents[3]


def test_the_page_of_the_command_line_is_what_the_code_says():
    assert (ROOT / PAGE).read_text(encoding="utf-8") == cli_reference()


def test_every_command_and_flag_is_on_the_page():
    page, tree = cli_reference(), command_tree(parser(None))
    commands = [command for command in tree.all() if not command.commands]

    assert {*tree.commands} == {*COMMANDS}
    for command in commands:
        section = page.partition(f"# {' '.join(command.words[1:])}\n")[2].partition("\n#")[0]
        spelled = [flag.names[-1] for flag in command.flags if flag.group == "options"]
        assert [name for name in spelled if name not in section] == [], command.words
        assert [each.shown for each in command.positionals if each.shown not in section] == []


def test_every_flag_and_place_has_a_meaning():
    commands = command_tree(parser(None)).all()

    without = []
    for command in commands:
        named = {flag.names[-1]: flag.meaning for flag in command.flags}
        named |= {each.shown: each.meaning for each in command.positionals}
        without += [(command.words, name) for name, meaning in named.items() if not meaning]

    assert without == []
