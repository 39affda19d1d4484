"""Our port of AISimulate's rules against AISimulate's own model, in its own environment."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from dynamo_operator.aisimulate.input import violations
from dynamo_operator.aisimulate.violations import dotted
from dynamo_operator.planner.environment import PlannerMissingError, describe
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

LAX_PATHS = ("prefix_caching", "startup_seconds", "preset")
"""Where the model takes 0 and 1 for false and true, or the reverse; our schema does not."""


@pytest.fixture(scope="module")
def planner_python():
    try:
        return describe(os.environ).python
    except PlannerMissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("seed", [1, 2])
def test_we_refuse_what_the_model_refuses_and_nothing_else(planner_python, seed):
    documents = list(mutated_inputs(seed, COUNT))
    answer = subprocess.run(
        [planner_python, "-c", JUDGE],
        input=json.dumps(documents),
        capture_output=True,
        text=True,
        check=True,
    )
    taken = json.loads(answer.stdout)

    disagreements = []
    for document, model_takes_it in zip(documents, taken, strict=True):
        ours = violations(document)
        strict = [v for v in ours if not dotted(v.path).endswith(LAX_PATHS)]
        if (model_takes_it and strict) or (not model_takes_it and not ours):
            disagreements.append((document, [str(violation) for violation in ours]))
    assert disagreements == []
    assert sum(taken) > COUNT // 50


def test_schema_and_catalogue_are_those_of_the_bundled_aisimulate(planner_python):
    checked = subprocess.run(
        [planner_python, ROOT / "hack/import_aisimulate", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (checked.stdout, checked.returncode) == ("", 0), checked.stderr
