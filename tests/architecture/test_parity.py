"""Every row of docs/parity.md says what stands here and names tests that exist."""

from dataclasses import dataclass
from functools import cache

from tests.architecture.named_tests import ROOT, TEST, missing_tests

DOCUMENT = ROOT / "docs" / "parity.md"

SECTIONS = (
    "Manager and runnables",
    "Controller",
    "Builder",
    "Work queues and rate limiters",
    "Sources, events, handlers, predicates",
    "Cache",
    "Reflector, queue of deltas, informer, store",
    "Client",
    "Owner references, finalizers",
    "Leader election",
    "Webhooks, certificates, health, metrics, logs, events",
    "Testing",
    "Behaviours",
    "Better designs",
    "What Python users suffer from",
)
NUMBERED = {"Behaviours": 103, "Better designs": 23, "What Python users suffer from": 30}
PROVEN = frozenset({"same", "better"})
VERDICTS = PROVEN | {"absent", "Go only"}


@dataclass(frozen=True)
class Row:
    section: str
    subject: str
    here: str
    verdict: str
    tests: str

    def __str__(self):
        return f"{self.section}: {self.subject[:60]}"


@cache
def rows():
    """The rows of all tables; a numbered one's subject begins with its number."""
    found, section = [], ""
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if not line.startswith("| ") or line.startswith(("| Go |", "| # |", "| --- |")):
            continue
        *subject, here, verdict, tests = (cell.strip() for cell in line.strip("|").split("|"))
        assert len(subject) == (2 if section in NUMBERED else 1), f"cells: {line}"
        found.append(Row(section, " ".join(subject), here, verdict, tests))
    return tuple(found)


def test_every_section_is_there_and_has_rows():
    assert tuple(dict.fromkeys(row.section for row in rows())) == SECTIONS


def test_every_statement_has_its_row():
    for section, count in NUMBERED.items():
        numbers = [row.subject.split()[0] for row in rows() if row.section == section]

        assert numbers == [str(number) for number in range(1, count + 1)], section


def test_every_verdict_is_one_of_those_that_the_page_explains():
    assert [str(row) for row in rows() if row.verdict not in VERDICTS] == []


def test_what_is_the_same_or_better_is_proven():
    unproven = [str(row) for row in rows() if row.verdict in PROVEN and not TEST.search(row.tests)]

    assert unproven == []


def test_what_is_better_or_not_here_has_its_reason():
    bare = [str(r) for r in rows() if r.verdict != "same" and not r.here]

    assert bare == []


def test_every_test_that_is_named_exists():
    named = [row for row in rows() if row.tests != "-"]
    missing = [f"{row}: {problem}" for row in named for problem in missing_tests(row.tests)]

    assert missing == []
