"""A Request to begin with: what has to be said, and what may be, in comments."""

from __future__ import annotations

import re
from typing import Final

from dynamo_operator.admission import defaulting
from dynamo_operator.aisimulate.document import dump_yaml
from dynamo_operator.api.sku_catalog import SKUS
from dynamo_operator.api.v1beta2 import Backend, DynamoGraphDeploymentRequest, Metric, TraceFormat

_TYPE = DynamoGraphDeploymentRequest.resource_type
_LONGEST_NAME: Final = 63

_TEMPLATE: Final = """\
# Which deployment of this model is best? Check this file with
#   dynamo-operator request validate -f FILE
# see what it makes AISimulate search with
#   dynamo-operator request explain -f FILE
# and start the search with
#   dynamo-operator request submit -f FILE
# What is commented out is optional and shows its default, or an example where it has none.
apiVersion: {api_version}
kind: {kind}
metadata:
  name: {name}
spec:
  model:
    name: {model}  # as on the Hugging Face hub

  # Engines to search over: {backends}.
  # backends: [vllm]

  # The GPUs to search for. What is left out is discovered in the cluster.
  {c}hardware:
  {c}  gpu:
  {s}    # One of {skus}.
  {s}    sku: {sku}
  {b}    budget: {budget}  # the most GPUs that one deployment may use

  # The traffic: static or trace, not both.
  # workload:
  #   static:
  #     inputTokens: {input_tokens}
  #     outputTokens: {output_tokens}
  #     load:  # one of these
  #       concurrency: {concurrency}
  #       # requestsPerSecond: 20
  #       # kvCapacityFraction:
  #       #   value: 0.8
  #       #   # or searched as well:
  #       #   # range: {{min: 0.1, max: 1.0}}
  #   # A recorded trace on a volume:
  #   # trace:
  #   #   source:
  #   #     pvc: {{claimName: traces, path: day-1.jsonl}}
  #   #   format: mooncake  # {formats}
  #   #   replay:  # one of these
  #   #     arrivalSpeedupRatio: 1
  #   #     # concurrency: 64

  # What makes a deployment better: {metrics}.
  # objective:
  #   mode: optimize
  #   metric: throughput
  #   # Bounds in milliseconds: ttftMs, itlMs or both, or e2eMs alone. Goodput needs one.
  #   # sla: {{ttftMs: 300, itlMs: 25}}
  #   # sla: {{e2eMs: 4000}}

  # How long to search.
  # search:
  #   budget:
  #     maxEvaluations: 64
  #     parallelEvaluations: 8
  #     maxEvaluationDuration: 5m

  # How many results to keep, 1 to 100.
  # recommendation:
  #   maxCandidates: {max_candidates}

  # AISimulate's own input, merged over all of the above. A null deletes a key; plain
  # `kubectl apply` drops nulls, while `request submit` keeps them.
  # aisimulate:
  #   inputOverrides:
  #     optimizer: {{algorithm: random, max_trials: 6, parallelism: 2}}

  # Change it to search again with the same input.
  # rerun:
  #   reason: new AISimulate release
"""


def request_sample(
    model: str, *, name: str = "", sku: str | None = None, budget: int | None = None
) -> str:
    """Return the YAML of a Request for a model.

    Args:
        model: as on the Hugging Face hub.
        name: of the Request; default one made from the model's.
        sku: GPU product; default left to discovery.
        budget: the most GPUs; default left to discovery.
    """
    return _TEMPLATE.format(
        api_version=_TYPE.api_version,
        kind=_TYPE.kind,
        name=_scalar(name or default_name(model)),
        model=_scalar(model),
        backends=", ".join(Backend),
        c="" if sku or budget else "# ",
        s="" if sku else "# ",
        b="" if budget else "# ",
        sku=sku or "h200_sxm",
        skus=", ".join(SKUS),
        budget=budget or 8,
        input_tokens=defaulting.INPUT_TOKENS,
        output_tokens=defaulting.OUTPUT_TOKENS,
        concurrency=defaulting.CONCURRENCY,
        formats=", ".join(TraceFormat),
        metrics=", ".join(Metric),
        max_candidates=defaulting.MAX_CANDIDATES,
    )


def default_name(model: str) -> str:
    """Return a name for a Request: the model's own, in the letters that a name may have."""
    own = model.rpartition("/")[2].lower()
    name = re.sub(r"[^a-z0-9]+", "-", own).strip("-")[:_LONGEST_NAME].strip("-")
    return name or "search"


def _scalar(text: str) -> str:
    return dump_yaml([text])[2:].rstrip("\n")
