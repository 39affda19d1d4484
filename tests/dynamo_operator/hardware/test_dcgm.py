import pytest

from dynamo_operator.hardware.dcgm import BODY_LIMIT, read_metrics

LAB = "\r\n".join(
    [
        "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).",
        'DCGM_FI_DEV_VGPU_INSTANCE_IDS{gpu="0"} ERROR - FAILED TO CONVERT TO STRING',
        r'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",modelName="NVIDIA L40S",'
        r'Hostname="lab \"a\" \\ 1",pod=""} 3.3e+01 1767225600000',
        r'DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-1",modelName="NVIDIA L40S",'
        r'Hostname="lab \"a\" \\ 1"} 4.5068e+04',
        r'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",modelName="NVIDIA L40S",'
        r'Hostname="lab \"a\" \\ 1"} 1000',
        r'DCGM_FI_DEV_FB_RESERVED{gpu="0",UUID="GPU-1",modelName="NVIDIA L40S",'
        r'Hostname="lab \"a\" \\ 1"} NaN',
        'DCGM_FI_DEV_GPU_TEMP{gpu="9",UUID="GPU-9"',
    ]
)


def temperature(gpu, model="NVIDIA H200", **labels):
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return f'DCGM_FI_DEV_GPU_TEMP{{gpu="{gpu}",modelName="{model}"{more}}} 40\n'


def test_broken_lines_are_skipped_and_the_rest_is_read():
    (found,) = read_metrics(LAB, node="n1")

    assert (found.node, found.sku) == ('lab "a" \\ 1', "l40s")
    assert (found.count, found.memory_mib) == (1, 46068)


def test_the_pods_node_stands_in_for_a_missing_host():
    (found,) = read_metrics(temperature(0) + temperature(1), node="n1")

    assert (found.node, found.count, found.memory_mib) == ("n1", 2, 0)


def test_products_of_one_host_are_told_apart():
    found = read_metrics(temperature(0) + temperature(1, "NVIDIA L4"), node="n1")

    assert [(gpus.sku, gpus.count) for gpus in found] == [("h200_sxm", 1), ("l4", 1)]


def test_a_sliced_gpu_is_not_a_whole_one():
    slices = [temperature(1, GPU_I_PROFILE="1g.10gb", GPU_I_ID=str(n)) for n in range(7, 14)]

    (found,) = read_metrics(temperature(0) + "".join(slices) + temperature(1), node="n1")

    assert found.count == 1


@pytest.mark.parametrize("host", ["Hostname", "hostname"])
def test_the_host_has_the_name_that_older_and_newer_exporters_give_it(host):
    (found,) = read_metrics(temperature(0, **{host: "gpu-7"}), node="n1")

    assert found.node == "gpu-7"


@pytest.mark.parametrize("free", ["9223372036854775794", "-1", "NaN", "+Inf", "46068000000"])
def test_memory_that_no_card_has_is_not_known(free):
    text = temperature(0) + "".join(
        f'DCGM_FI_DEV_FB_{part}{{gpu="0",modelName="NVIDIA H200"}} {value}\n'
        for part, value in (("FREE", free), ("USED", "0"))
    )

    (found,) = read_metrics(text, node="n1")

    assert found.memory_mib == 0


@pytest.mark.parametrize(
    "text",
    ["", "<html>login</html>", 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 33\n', "\x00\xff", temperature("")],
)
def test_an_answer_without_a_named_gpu_tells_nothing(text):
    assert read_metrics(text, node="n1") == ()


def test_an_endless_answer_is_cut_off():
    filler = "# " + "x" * 1022 + "\n"

    (found,) = read_metrics(
        temperature(0) + filler * (BODY_LIMIT // 512) + temperature(1), node="n"
    )

    assert found.count == 1
