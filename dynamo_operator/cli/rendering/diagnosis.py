"""A diagnosis in lines."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from dynamo_operator.cli.diagnosis.findings import Finding, Severity
from dynamo_operator.cli.rendering.terminal import Style, Terminal, printable

_STYLES: Final = {
    Severity.OK: Style.GOOD,
    Severity.WARNING: Style.WARNING,
    Severity.PROBLEM: Style.BAD,
    Severity.UNKNOWN: Style.FAINT,
}
_WIDTH: Final = max(map(len, Severity)) + 2


def finding_lines(finding: Finding, terminal: Terminal) -> list[str]:
    """Return a finding in one line; on a terminal in lines that fit, how to mend it apart."""
    told = " ".join(printable(f"{finding.check}: {finding.told}").split())
    mend = " ".join(printable(f"mend: {finding.mend}").split()) if finding.mend else ""
    texts = [told, mend] if mend else [told]
    if terminal.is_interactive:
        room = max(terminal.width - _WIDTH, _WIDTH)
        parts = [part for text in texts for part in wrap(text, room, break_on_hyphens=False)]
    else:
        parts = ["; ".join(texts)]
    severity = terminal.painted(finding.severity.ljust(_WIDTH), _STYLES[finding.severity])
    return [f"{severity}{parts[0]}", *(f"{' ' * _WIDTH}{part}" for part in parts[1:])]


def summary(findings: Sequence[Finding]) -> str:
    """Return the count of each severity that there is."""
    counts = {
        severity: sum(finding.severity is severity for finding in findings) for severity in Severity
    }
    return ", ".join(f"{severity}: {count}" for severity, count in counts.items() if count)
