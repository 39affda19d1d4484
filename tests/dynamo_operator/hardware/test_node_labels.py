import pytest

from dynamo_operator.hardware.inventory import (
    GpuDiscoveryError,
    take_inventory,
    topology,
    unknown_product_message,
)
from dynamo_operator.hardware.node_labels import survey_nodes
from dynamo_operator.runtime.builtin_kinds import Node


def node(name, product=None, count=None, memory=None, *, labels=None, **fields):
    values = {"product": product, "count": count, "memory": memory}
    named = {f"nvidia.com/gpu.{key}": str(v) for key, v in values.items() if v is not None}
    return Node.new(name, labels={**named, **(labels or {})}, **fields)


def inventory(*nodes, sku=None):
    return take_inventory(survey_nodes(nodes), sku=sku)


def test_time_slicing_counts_physical_cards_and_says_that_they_are_shared():
    found = inventory(
        node(
            "n1",
            "NVIDIA-L4-SHARED",
            1,
            23034,
            labels={"nvidia.com/gpu.replicas": "4"},
            status={"allocatable": {"nvidia.com/gpu": "4"}},
        ),
        node("n2", "NVIDIA-L4", 1, 23034, labels={"nvidia.com/gpu.replicas": "1"}),
    )

    assert (found.sku, found.gpus_per_node, found.total) == ("l4", 1, 2)
    assert any("shared" in note for note in found.notes)


def test_a_product_outside_the_catalogue_has_no_sku_and_is_named_with_the_catalogue():
    found = inventory(node("n1", "Tesla-T4", 1, 15360))

    assert found.sku is None
    assert "Tesla-T4" in unknown_product_message(found)
    assert "h200_sxm" in unknown_product_message(found)


@pytest.mark.parametrize("memory", ["42505273344", "", "80GB", "-1", "81559.0", " 81559"])
def test_memory_that_is_no_number_of_mib_never_wins_the_tie(memory):
    found = inventory(
        node("old", "NVIDIA-A100-SXM4-40GB", 8, memory),
        node("new", "NVIDIA-H100-80GB-HBM3", 8, 81559),
    )

    assert found.sku == "h100_sxm"


def test_different_counts_of_one_product_are_summed_and_the_smaller_nodes_named():
    nodes = [
        node(f"n{i}", "NVIDIA-A30", count, 24576) for i, count in enumerate((1, 1, 2, 2, 2, 2))
    ]

    found = inventory(*nodes)

    assert (found.budget, found.gpus_per_node) == (10, 2)
    assert "2 nodes have fewer than 2 GPUs" in found.notes


def test_a_discovered_budget_is_at_most_32():
    found = inventory(*(node(f"n{i}", "NVIDIA-H200", 8, 143771) for i in range(5)))

    assert (found.total, found.budget) == (40, 32)


def test_only_gpus_of_the_best_nodes_product_are_counted():
    found = inventory(
        node("a", "NVIDIA-H100-80GB-HBM3", 8, 81559),
        node("b", "NVIDIA-L4", 4, 23034),
    )

    assert (found.sku, found.total) == ("h100_sxm", 8)
    assert "NVIDIA-L4 is not counted" in found.notes


def test_a_product_of_the_catalogue_is_preferred_to_a_larger_unknown_one():
    found = inventory(node("a", "Tesla-T4", 16, 15360), node("b", "NVIDIA-L4", 4, 23034))

    assert (found.sku, found.total) == ("l4", 4)


def test_a_wanted_product_is_counted_alone_and_its_absence_names_what_is_there():
    nodes = (node("a", "NVIDIA-H100-80GB-HBM3", 8, 81559), node("b", "NVIDIA-L4", 4, 23034))

    assert inventory(*nodes, sku="l4").total == 4
    with pytest.raises(GpuDiscoveryError, match=r"product a30; found NVIDIA-H100.*NVIDIA-L4"):
        inventory(*nodes, sku="a30")


def test_topology_is_that_of_the_best_node_whatever_its_product():
    assert (
        topology(survey_nodes([node("a", "Tesla-T4", 16, 1), node("b", "NVIDIA-L4", 4, 2)])) == 16
    )


def test_nodes_that_cannot_be_used_now_are_counted_with_a_word_about_it():
    found = inventory(
        node("a", "NVIDIA-L4", 1, 23034, spec={"unschedulable": True}),
        node(
            "b",
            "NVIDIA-L4",
            1,
            23034,
            status={"conditions": [{"type": "Ready", "status": "Unknown"}]},
        ),
        node(
            "c",
            "NVIDIA-L4",
            1,
            23034,
            labels={"node-role.kubernetes.io/control-plane": ""},
            spec={
                "taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
            },
        ),
    )

    assert found.total == 3
    assert found.notes == (
        "node a: is cordoned",
        "node b: is not Ready",
        "node c: is for the control plane only",
    )


def test_of_a_node_whose_gpus_are_partly_cut_into_slices_only_whole_ones_count():
    partly = node(
        "n1",
        "NVIDIA-H100-80GB-HBM3",
        8,
        81559,
        labels={"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.10gb.count": "14"},
        status={"allocatable": {"nvidia.com/gpu": "6", "nvidia.com/mig-1g.10gb": "14"}},
    )

    found = inventory(partly)

    assert (found.sku, found.total, found.gpus_per_node) == ("h100_sxm", 6, 6)
    assert "node n1: other GPUs of it are cut into slices" in found.notes


def test_a_label_that_counts_no_slices_changes_nothing():
    labels = {"nvidia.com/mig.capable": "true", "nvidia.com/mig-1g.10gb.count": "0"}

    assert inventory(node("n1", "NVIDIA-H100-80GB-HBM3", 8, 81559, labels=labels)).total == 8


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (node("n", "NVIDIA-L4", "many"), "not a number of GPUs"),
        (node("n", "NVIDIA-L4", 0), "not a number of GPUs"),
        (node("n", None, 4), "has no label nvidia.com/gpu.product"),
        (node("n", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 7, 4864), "is a slice of a GPU"),
        (
            node(
                "n",
                "NVIDIA-A100-SXM4-40GB",
                8,
                40960,
                labels={"nvidia.com/mig-1g.5gb.count": "56"},
                status={"allocatable": {"nvidia.com/mig-1g.5gb": "56"}},
            ),
            "is cut into slices",
        ),
    ],
)
def test_a_node_with_unusable_labels_is_skipped_and_named_when_nothing_remains(broken, word):
    assert inventory(broken, node("good", "NVIDIA-L4", 1, 23034)).total == 1
    with pytest.raises(GpuDiscoveryError, match=f"node n: .*{word}"):
        inventory(broken)


def test_a_cluster_without_gpu_labels_says_which_labels_were_looked_for():
    with pytest.raises(GpuDiscoveryError, match=r"none of 2 nodes has the labels nvidia.com/gpu"):
        inventory(node("a"), node("b"))
