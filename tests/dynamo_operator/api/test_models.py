import pytest
from pydantic import ValidationError

from dynamo_operator.api.v1beta1 import DynamoGraphDeployment
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, SearchSpec


def test_a_request_reads_and_writes_exactly_what_was_set():
    wire = {
        "model": {"name": "m"},
        "workload": {"static": {}},
        "objective": {"sla": {"e2eMs": 2000}},
        "aisimulate": {"inputOverrides": {"traffic": {"stop": {"requests": None}}}},
    }

    request = DynamoGraphDeploymentRequest.new("a", spec=wire)

    assert request.to_dict()["spec"] == wire
    assert request.spec.objective is not None
    assert request.spec.objective.sla is not None
    assert request.spec.objective.sla.e2e_ms == 2000


def test_integral_floats_are_integers_as_the_api_server_stores_them():
    spec = SearchSpec.model_validate(
        {"model": {"name": "m"}, "objective": {"sla": {"ttftMs": 20.0, "itlMs": 0.5}}}
    )

    assert repr(spec.to_dict()["objective"]) == "{'sla': {'ttftMs': 20, 'itlMs': 0.5}}"


@pytest.mark.parametrize("value", ["800ms", "40", True, [1]])
def test_a_number_is_never_guessed_from_something_else(value):
    with pytest.raises(ValidationError, match=r"objective\.sla\.ttftMs\n.*must be a number"):
        SearchSpec.model_validate({"model": {"name": "m"}, "objective": {"sla": {"ttftMs": value}}})


def test_reading_does_not_judge_values_that_an_older_schema_took():
    spec = SearchSpec.model_validate({"model": {"name": "m"}, "backends": ["onnx"]})

    assert spec.backends == ["onnx"]


def graph(*components, **spec):
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "g"},
        "spec": {"components": list(components), **spec},
    }


def component(name="Worker", **fields):
    return {"name": name, "type": "worker", **fields}


MAIN = {"spec": {"containers": [{"name": "main", "image": "r/vllm-runtime:1.6.0"}]}}


def test_a_graph_of_components_is_read_and_unknown_fields_are_kept():
    wire = graph(component(podTemplate=MAIN, multinode={"nodeCount": 2}, newField={"x": 1}))

    assert DynamoGraphDeployment.model_validate(wire).to_dict() == wire


@pytest.mark.parametrize(
    ("wire", "told"),
    [
        (graph(), "components"),
        ({**graph(), "spec": {"services": {}}}, "components"),
        (graph({"type": "worker"}), "name"),
        (graph(component("-bad-")), "name"),
        (graph(component("x" * 64)), "name"),
        (graph(component(type="gpu")), "type"),
        (graph(component(replicas=-1)), "replicas"),
        (graph(component(replicas="2")), "replicas"),
        (graph(component(multinode={"nodeCount": 1})), "nodeCount"),
        (graph(component(runtimeVersionOverride="v1.2.3")), "runtimeVersionOverride"),
        (graph(component(), component("worker")), "occurs twice"),
        (graph(component("a", type="epp"), component("b", type="epp")), "at most one"),
        (graph(component(podTemplate={"spec": {"containers": [{"name": "x"}]}})), "container main"),
        (graph(component(podTemplate={"spec": {"containers": "x"}})), "list of containers"),
        (graph(component(), backendFramework="onnx"), "backendFramework"),
        (graph(*(component(f"w{i}") for i in range(26))), "components"),
    ],
)
def test_a_graph_of_another_shape_is_refused(wire, told):
    with pytest.raises(ValidationError, match=told):
        DynamoGraphDeployment.model_validate(wire)
