from __future__ import annotations

from io import StringIO

import pytest

from dynamo_operator.cli.rendering.terminal import Screen, Style, Terminal, clipped, printable


class Tty(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "is_interactive", "has_colour"),
    [
        (Tty(), {}, True, True),
        (Tty(), {"NO_COLOR": "1"}, True, False),
        (Tty(), {"NO_COLOR": ""}, True, True),
        (Tty(), {"TERM": "dumb"}, False, False),
        (StringIO(), {"TERM": "xterm"}, False, False),
    ],
    ids=["terminal", "NO_COLOR", "empty NO_COLOR", "dumb", "file"],
)
def test_colours_and_rewriting_are_for_terminals_that_want_them(
    stream: StringIO, environ: dict[str, str], is_interactive: bool, has_colour: bool
):
    terminal = Terminal.of(stream, environ)

    assert (terminal.is_interactive, terminal.has_colour) == (is_interactive, has_colour)
    assert terminal.painted("x", Style.BAD) == ("\x1b[31mx\x1b[0m" if has_colour else "x")


def test_a_block_is_rewritten_in_place_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LINES", "3")
    stream = Tty()
    screen = Screen(Terminal(stream, True))

    screen.show(["a", "b", "what has no room"])
    screen.show(["c"])

    assert stream.getvalue() == "a\nb\n\x1b[2F\x1b[Jc\n"


def test_elsewhere_each_block_follows_the_last():
    stream = StringIO()
    screen = Screen(Terminal(stream))

    screen.show(["a", "b"])
    screen.show(["c"])

    assert stream.getvalue() == "a\nb\nc\n"


def test_what_would_steer_a_terminal_is_shown_as_text():
    assert printable("a\x1b[31m\tb\nc\u202ed\x07é") == "a\\x1b[31m b c\\u202ed\\x07é"


def test_what_is_too_wide_ends_with_an_ellipsis():
    assert (clipped("abcdef", 4), clipped("abcd", 4), clipped("ab", 0)) == ("abc…", "abcd", "…")
