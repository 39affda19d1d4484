"""Lets Dynamo's own `dgd` adapter write the manifest of each recommendation, as if it were best.

Run in the planner environment: `python render_each.py recommendation.json '<dgd section>'`; prints
the manifests' texts as a JSON list, in AISimulate's order.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from aisimulate.sweeper.result import SweepResult
from dynamo.aisimulate.output.dgd import create_adapter


def main() -> None:
    """Render."""
    result = SweepResult.from_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    config = {**json.loads(sys.argv[2]), "output_file": "dgd.yaml"}
    manifests = []
    for candidate_id in result.views.top_n:
        views = result.views.model_copy(update={"top_n": [candidate_id]})
        with tempfile.TemporaryDirectory() as directory:
            only = result.model_copy(update={"views": views})
            create_adapter().write(config, result=only, output_dir=Path(directory))
            manifests.append((Path(directory) / "dgd.yaml").read_text(encoding="utf-8"))
    sys.stdout.write(f"\n{json.dumps(manifests)}\n")


if __name__ == "__main__":
    main()
