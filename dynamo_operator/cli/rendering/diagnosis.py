"""A diagnosis in lines."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from dynamo_operator.cli.diagnosis.findings import Finding, Verdict
from dynamo_operator.cli.rendering.terminal import Style, Terminal, printable

_STYLES: Final = {
    Verdict.OK: Style.GOOD,
    Verdict.WARNING: Style.WARNING,
    Verdict.PROBLEM: Style.BAD,
    Verdict.UNKNOWN: Style.FAINT,
}
_WIDTH: Final = max(map(len, Verdict)) + 2


def finding_lines(finding: Finding, terminal: Terminal) -> list[str]:
    """Return a finding in one line, which is wrapped on a terminal only."""
    mend = f"; mend: {finding.mend}" if finding.mend else ""
    text = " ".join(printable(f"{finding.check}: {finding.told}{mend}").split())
    room = max(terminal.width - _WIDTH, _WIDTH)
    parts = wrap(text, room, break_on_hyphens=False) if terminal.is_interactive else [text]
    verdict = terminal.painted(finding.verdict.ljust(_WIDTH), _STYLES[finding.verdict])
    return [f"{verdict}{parts[0]}", *(f"{' ' * _WIDTH}{part}" for part in parts[1:])]


def summary(findings: Sequence[Finding]) -> str:
    """Return the count of each verdict that there is."""
    counts = {
        verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict
    }
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
