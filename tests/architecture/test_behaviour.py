"""Every row of docs/behaviour.md names tests that exist, and no row has been lost."""

from collections import Counter

from tests.architecture.named_tests import ROOT, missing_tests

DOCUMENT = ROOT / "docs" / "behaviour.md"

STATEMENTS = {
    "One search, one Job": 10,
    "Lowering and ownership": 9,
    "Controller": 13,
    "Review findings": 11,
    "API of a Request": 14,
    "Validation and compatibility": 4,
    "Kinds": 30,
    "Admission": 13,
    "Lowering": 11,
    "Requests": 8,
    "Runs": 20,
    "The Job": 10,
    "The publisher": 13,
    "The output adapter": 12,
    "Images and versions": 6,
    "GPU discovery": 10,
    "Hostile input": 4,
    "Traps": 15,
    "Load": 1,
    "Pool relays": 21,
    "Pool relays: resources": 11,
    "Pool relays: review findings": 18,
    "Command line": 13,
    "Operator process": 12,
}
"""How many statements each section makes: one that is taken away is missed."""


def rows():
    """Section, statement and tests of each row."""
    section = ""
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if line.startswith("| ") and not line.startswith(("| Behaviour |", "| --- |")):
            statement, tests = (cell.strip() for cell in line.strip("|").split("|"))
            yield section, statement, tests


def test_every_section_makes_all_its_statements():
    assert Counter(section for section, _, _ in rows()) == STATEMENTS


def test_no_statement_is_made_twice_in_a_section():
    made = Counter((section, statement) for section, statement, _ in rows())

    assert [each for each, times in made.items() if times > 1] == []


def test_every_statement_is_proven_by_tests_that_exist():
    missing = [
        f"{section}: {statement}: {problem}"
        for section, statement, tests in rows()
        for problem in missing_tests(tests)
    ]

    assert missing == []
