"""Every line of docs/security.md names tests that exist, or argues; few only argue."""

import tomllib

from tests.architecture.named_tests import ROOT, missing_tests

DOCUMENT = ROOT / "docs" / "security.md"
LINES = 38
MOST_ARGUED = 2


def lines():
    """Number and proof of each line of the checklist."""
    checklist = DOCUMENT.read_text().partition("## The checklist")[2]
    for line in checklist.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0].isdigit():
            yield int(cells[0]), cells[2]


def test_the_checklist_has_all_its_lines():
    assert [number for number, _ in lines()] == list(range(1, LINES + 1))


def test_every_line_is_proven_by_tests_that_exist_or_argued():
    missing = [
        f"{number}: {problem}"
        for number, proof in lines()
        if not proof.startswith("Argued: ")
        for problem in missing_tests(proof)
    ]

    assert missing == []


def test_few_lines_are_only_argued():
    assert sum(proof.startswith("Argued: ") for _, proof in lines()) <= MOST_ARGUED


def test_the_linter_looks_for_what_is_unsafe():
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    shells, text, loaders = ("S602", "S604", "S605"), ("S102", "S307"), ("S301", "S506")

    assert "S" in lint["select"]
    assert {*shells, *text, *loaders, "S501"}.isdisjoint(lint["ignore"])
    shipped = [paths for paths in lint["per-file-ignores"] if not paths.startswith("tests/")]
    assert [path for path in shipped if "S" in lint["per-file-ignores"][path]] == []
