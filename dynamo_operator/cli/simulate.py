"""`dynamo-operator simulate`: run an operator's scenario under faults, on virtual time."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dynamo_operator.cli.errors import FAILURE, USAGE, CliError

if TYPE_CHECKING:
    from dynamo_operator.simulation import Outcome, Plan, Recording, Reference, Scenario

_EPILOG = """\
MODULE:SCENARIO names a variable of an importable module; the working directory is searched first.
Without an option the scenario runs without faults. A run that breaks an invariant is made as small
as it can be, told, and ends the command with exit code 1.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `simulate`."""
    parser.epilog = _EPILOG
    parser.add_argument("target", metavar="MODULE:SCENARIO", help="what to simulate")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--seed", type=int, metavar="N", help="run with what seed N draws")
    what.add_argument("--seeds", type=int, metavar="N", help="run seeds 0 to N-1, to the first bug")
    what.add_argument(
        "--plan", metavar="FILE", help="run a plan or a recording, from a file or as JSON itself"
    )
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write the run there, to replay"
    )
    parser.add_argument("--story", action="store_true", help="tell the run even if nothing broke")
    parser.add_argument("--as-is", action="store_true", help="do not make a failing plan smaller")
    parser.set_defaults(run=run_simulate)


def run_simulate(arguments: argparse.Namespace) -> int:
    """Run, and say what came of it."""
    from dynamo_operator.simulation import run

    scenario = load(arguments.target)
    reference = run(scenario)
    if not reference.passed or not _has_faults(arguments):
        return _told(arguments, scenario, reference, None)
    if arguments.seeds is not None:
        outcome = _first_failure(scenario, arguments.seeds, reference.end)
        if outcome is None:
            return 0
    else:
        outcome = run(scenario, plan=_plan(arguments), reference=reference.end)
    return _told(arguments, scenario, outcome, reference.end)


def load(target: str) -> Scenario:
    """Return the scenario that MODULE:NAME names.

    Raises:
        CliError: there is none.
    """
    from dynamo_operator.simulation import Scenario

    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise CliError(f"{target!r} is not MODULE:SCENARIO", exit_code=USAGE)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module_name), name)
    except ModuleNotFoundError as error:
        raise CliError(f"{target}: no module named {error.name!r}", exit_code=USAGE) from None
    except AttributeError:
        raise CliError(f"{target}: {module_name} has no {name!r}", exit_code=USAGE) from None
    if not isinstance(found, Scenario):
        kind = type(found).__name__
        raise CliError(f"{target}: is a {kind}, not a Scenario", exit_code=USAGE)
    return found


def _has_faults(arguments: argparse.Namespace) -> bool:
    return any(getattr(arguments, name) is not None for name in ("seed", "seeds", "plan"))


def _plan(arguments: argparse.Namespace) -> Plan | Recording:
    from dynamo_operator.simulation import Plan, Recording

    if arguments.plan is None:
        return Plan.drawn(arguments.seed)
    text: str = arguments.plan
    data = text if text.lstrip().startswith("{") else Path(text).read_text()
    try:
        is_recording = "trail" in json.loads(data)
        return (Recording if is_recording else Plan).model_validate_json(data)
    except ValueError as error:
        where = "--plan" if data is text else text
        first = next(iter(str(error).splitlines()[1:2]), str(error))
        raise CliError(f"{where}: is no plan: {first.strip()}", exit_code=USAGE) from None


def _first_failure(scenario: Scenario, seeds: int, reference: Reference) -> Outcome | None:
    from dynamo_operator.simulation import Plan, run

    faults: Counter[str] = Counter()
    for seed in range(seeds):
        outcome = run(scenario, plan=Plan.drawn(seed), reference=reference)
        if not outcome.passed:
            print(
                f"{scenario.name}: seed {seed} of {seeds} broke {outcome.violations[0].invariant}"
            )
            return outcome
        faults.update(fault.do.do for fault in outcome.plan.faults)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(faults.items()))
    print(f"{scenario.name}: {seeds} seeds, everything held ({kinds})")
    return None


def _told(
    arguments: argparse.Namespace,
    scenario: Scenario,
    outcome: Outcome,
    reference: Reference | None,
) -> int:
    from dynamo_operator.simulation import shrink

    if not (outcome.passed or arguments.as_is or outcome.diverged):
        outcome = shrink(scenario, outcome, reference=reference)
    if arguments.record is not None:
        arguments.record.write_text(outcome.recording().model_dump_json(exclude_defaults=True))
    if arguments.story or not outcome.passed:
        print(outcome.story(scenario))
    if outcome.diverged:
        print(f"{scenario.name}: not the recorded run: {outcome.diverged}")
        return FAILURE
    if outcome.passed:
        calls = sum(1 for call in outcome.history.calls if call.incarnation)
        print(
            f"{scenario.name}: everything held in {outcome.virtual_seconds:.0f} virtual seconds"
            f" ({calls} calls, {len(outcome.reached)} faults, trace {outcome.trace_hash})"
        )
    return 0 if outcome.passed else FAILURE
