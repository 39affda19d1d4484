import pytest

from dynamo_operator.admission.denials import Denial
from dynamo_operator.admission.reading import read_spec


@pytest.mark.parametrize(
    ("sections", "denial"),
    [
        (
            {"objective": {"sla": {"ttftMs": "800ms"}}},
            "spec.objective.sla.ttftMs: must be a number of milliseconds, not '800ms'",
        ),
        (
            {"objective": {"sla": {"ttftMs": "800ms", "itlMs": "40", "e2eMs": True}}},
            "spec.objective.sla.ttftMs: must be a number of milliseconds, not '800ms'; "
            "spec.objective.sla.itlMs: must be a number of milliseconds, not '40'; "
            "spec.objective.sla.e2eMs: must be a number of milliseconds, not True",
        ),
        (
            {"hardware": {"gpu": {"budget": 1.5}}},
            "spec.hardware.gpu.budget: must be an integer, not 1.5",
        ),
        (
            {"workload": {"static": {"load": {"requestsPerSecond": "many"}}}},
            "spec.workload.static.load.requestsPerSecond: must be a number, not 'many'",
        ),
        ({"model": "Org/M-8B"}, "spec.model: must be an object, not 'Org/M-8B'"),
        ({"model": {}}, "spec.model.name: is missing"),
        (
            {"backends": ["vllm", 3]},
            "spec.backends[1]: input should be a valid string, not 3",
        ),
        (
            {"aisimulate": {"inputOverrides": [1]}},
            "spec.aisimulate.inputOverrides: must be an object, not [1]",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_denied_with_field_value_and_what_is_right(sections, denial):
    with pytest.raises(Denial) as error:
        read_spec({"model": {"name": "m"}, **sections})

    assert str(error.value) == denial


def test_what_is_right_is_read():
    assert read_spec({"model": {"name": "m"}}).model.name == "m"
