"""Our port of AISimulate's rules against AISimulate's own model, in its own environment."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from dynamo_operator.aisimulate.input import violations
from dynamo_operator.aisimulate.violations import dotted
from dynamo_operator.planner.environment import PlannerMissingError, describe
from tests.dynamo_operator.aisimulate.lowering_cases import CASES, lowered
from tests.dynamo_operator.aisimulate.mutations import mutated_inputs

pytestmark = pytest.mark.planner

ROOT = Path(__file__).resolve().parents[3]
COUNT = 6_000

JUDGE = """
import json, sys
from aisimulate.config.cli import CoreRecommendationConfig
from pydantic import ValidationError

def takes(document):
    try:
        CoreRecommendationConfig.model_validate(document)
    except (ValidationError, TypeError):
        return False
    return True

json.dump([takes(document) for document in json.load(sys.stdin)], sys.stdout)
"""

ADAPTERS = ("dgdr_run", "planner", "router")
"""Sections that adapters judge, and the core model does not know."""

LAX_PATHS = ("prefix_caching", "startup_seconds", "preset")
"""Where the model takes 0 and 1 for false and true, or the reverse; our schema does not."""


@pytest.fixture(scope="module")
def planner_python():
    try:
        return describe(os.environ).python
    except PlannerMissingError as error:
        pytest.skip(str(error))


def judged(python, documents):
    """Whether AISimulate's own model takes each document."""
    answer = subprocess.run(
        [python, "-c", JUDGE],
        input=json.dumps(documents),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(answer.stdout)


def test_the_model_takes_what_requests_become(planner_python):
    names = [name for name in CASES if name != "override-mode-keeps-callers-workers"]
    documents = [lowered(name).document for name in names]
    cores = [{k: v for k, v in each.items() if k not in ADAPTERS} for each in documents]

    taken = judged(planner_python, cores)

    assert [name for name, is_taken in zip(names, taken, strict=True) if not is_taken] == []
    assert len(names) >= 40


@pytest.mark.parametrize("seed", [1, 2])
def test_we_refuse_what_the_model_refuses_and_nothing_else(planner_python, seed):
    documents = list(mutated_inputs(seed, COUNT))
    taken = judged(planner_python, documents)

    disagreements = []
    for document, model_takes_it in zip(documents, taken, strict=True):
        ours = violations(document)
        strict = [v for v in ours if not dotted(v.path).endswith(LAX_PATHS)]
        if (model_takes_it and strict) or (not model_takes_it and not ours):
            disagreements.append((document, [str(violation) for violation in ours]))
    assert disagreements == []
    assert min(sum(taken), COUNT - sum(taken)) > 100


def test_schema_and_catalogue_are_those_of_the_bundled_aisimulate(planner_python):
    checked = subprocess.run(
        [planner_python, ROOT / "hack/import_aisimulate", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (checked.stdout, checked.returncode) == ("", 0), checked.stderr
