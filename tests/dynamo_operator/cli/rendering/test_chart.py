from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.rendering.chart import Point, candidate_chart, frontier
from tests.dynamo_operator.cli.rendering.test_candidates import AGGREGATED, DISAGGREGATED

_SVG = "{http://www.w3.org/2000/svg}"


def candidate(score: float | None, gpus: int, tp: int = 1) -> DynamoGraphDeploymentCandidate:
    parameters = {"deployment_mode": "agg", "backend": "vllm", "replicas": 1, "tp": tp}
    metrics = {"score": score, "usedGpus": gpus}
    return DynamoGraphDeploymentCandidate.new(
        "a", spec={"parameters": parameters}, status={"metrics": metrics}
    )


def drawn(*candidates: DynamoGraphDeploymentCandidate) -> ElementTree.Element:
    return ElementTree.fromstring(candidate_chart(candidates, title="Org/M-8B <1> on h200_sxm"))


def texts(chart: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in chart.findall(f"{_SVG}text")]


def ticks(chart: ElementTree.Element, *, anchor: str) -> list[str]:
    found = chart.findall(f"{_SVG}text[@text-anchor='{anchor}']")
    return [each.text or "" for each in found if (each.text or "").replace(".", "").isdecimal()]


def test_each_candidate_is_a_point_with_its_rank_and_parallelism_beside_it():
    chart = drawn(AGGREGATED, DISAGGREGATED)

    points = chart.findall(f"{_SVG}circle")
    assert [point[0].text for point in points] == [
        "1: aggregated vllm 2 x tp4",
        "2: disaggregated sglang prefill 2 x tp1 + decode 1 x tp4 ep8",
    ]
    assert texts(chart)[-2:] == ["1: 2 x tp4", "2: prefill 2 x tp1 + decode 1 x tp4 ep8"]


def test_the_title_says_what_was_searched_for():
    assert texts(drawn(AGGREGATED))[0] == "Org/M-8B <1> on h200_sxm"


@pytest.mark.parametrize(
    ("score", "gpus", "scores", "counts"),
    [
        (3497.8, 8, "0 500 1000 1500 2000 2500 3000 3500", "0 1 2 3 4 5 6 7 8"),
        (0.7, 1, "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7", "0 1"),
        (40, 72, "0 5 10 15 20 25 30 35 40", "0 10 20 30 40 50 60 70 80"),
    ],
    ids=["large", "small", "many GPUs"],
)
def test_the_axes_have_round_ticks_and_whole_gpus(
    score: float, gpus: int, scores: str, counts: str
):
    chart = drawn(candidate(score, gpus))

    assert " ".join(ticks(chart, anchor="end")) == scores
    assert " ".join(ticks(chart, anchor="middle")) == counts


def test_labels_of_candidates_that_are_alike_do_not_cover_each_other():
    chart = drawn(*(candidate(100 - step, 8, tp=2) for step in range(4)))

    labels = [each for each in chart.findall(f"{_SVG}text") if "x tp2" in (each.text or "")]
    heights = sorted(float(each.attrib["y"]) for each in labels)
    assert len(heights) == 4
    assert min(after - before for before, after in pairwise(heights)) >= 14


@pytest.mark.parametrize("candidates", [[], [candidate(None, 4)]], ids=["none", "no score"])
def test_nothing_to_show_is_an_empty_chart(candidates: Sequence[DynamoGraphDeploymentCandidate]):
    assert drawn(*candidates).findall(f"{_SVG}circle") == []


def test_a_candidate_keeps_its_rank_beside_one_without_a_score():
    assert texts(drawn(candidate(None, 4), candidate(5, 2)))[-1] == "2: 1 x tp1"


def test_the_frontier_is_what_no_other_beats_in_score_and_cost():
    points = [
        Point(rank, cost, score, "", "")
        for rank, (cost, score) in enumerate([(8, 30), (4, 20), (4, 10), (6, 20), (2, 5)], start=1)
    ]

    assert [point.rank for point in frontier(points)] == [5, 2, 1]


def test_what_lies_behind_the_frontier_is_hollow_and_the_best_stands_out():
    chart = drawn(candidate(30, 8), candidate(20, 4), candidate(10, 6))

    kinds = [point.attrib["class"] for point in chart.findall(f"{_SVG}circle")]
    assert kinds == ["point best", "point", "point behind"]
    assert len(chart.findall(f"{_SVG}path[@class='frontier']")) == 1


def test_scores_below_zero_are_drawn_between_the_axes():
    chart = drawn(candidate(-20, 4), candidate(-80, 8))

    heights = [float(point.attrib["cy"]) for point in chart.findall(f"{_SVG}circle")]
    assert ticks(chart, anchor="end")[-1] == "0"
    assert all(70 <= height <= 420 for height in heights)
    assert heights[0] < heights[1]


def test_a_chart_has_colours_for_light_and_dark():
    style = drawn(candidate(5, 2)).find(f"{_SVG}style")

    assert style is not None
    assert "prefers-color-scheme: dark" in (style.text or "")
