import pytest

from dynamo_operator.hardware.products import catalogue_name


@pytest.mark.parametrize(
    ("product", "sku"),
    [
        ("NVIDIA-H100-80GB-HBM3", "h100_sxm"),
        ("NVIDIA-H100-SXM5-80GB", "h100_sxm"),
        ("NVIDIA H100 PCIe", "h100_pcie"),
        ("NVIDIA-H100-NVL", None),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "h100_sxm"),
        ("NVIDIA H200", "h200_sxm"),
        ("NVIDIA-H200-NVL", None),
        ("NVIDIA-GH200-480GB", None),
        ("NVIDIA GH200 144G HBM3e", None),
        ("NVIDIA-H20", None),
        ("NVIDIA-H800", None),
        ("NVIDIA-A100-SXM4-40GB", "a100_sxm"),
        ("NVIDIA-A100-SXM-64GB", "a100_sxm"),
        ("NVIDIA-A100-PCIE-40GB", "a100_pcie"),
        ("NVIDIA-A100-80GB-PCIe", "a100_pcie"),
        ("NVIDIA-A100X", None),
        ("NVIDIA-A800-SXM4-80GB", None),
        ("NVIDIA-A30", "a30"),
        ("NVIDIA-A10", None),
        ("NVIDIA-L4", "l4"),
        ("NVIDIA-L4-SHARED", "l4"),
        ("NVIDIA-L40", None),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA-B200", "b200_sxm"),
        ("NVIDIA-GB200", "gb200"),
        ("NVIDIA-B300-SXM6-AC", "b300_sxm"),
        ("NVIDIA-GB300", "gb300"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtx_pro_6000_server"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition", None),
        ("NVIDIA-RTX-6000-Ada-Generation", None),
        ("Intel(R) Arc(TM) Pro B60 Graphics", "b60"),
        ("Tesla-T4", None),
        ("Tesla-V100-SXM2-16GB", None),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", None),
        ("GRID-A100-10C", None),
        ("NVIDIA-L40S-48Q", None),
        ("", None),
    ],
)
def test_a_product_has_its_catalogue_name_or_none(product, sku):
    assert catalogue_name(product) == sku
