"""The reference of the operator's settings, from the classes that declare them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from dynamo_operator.settings.schema import Setting, all_settings

EXAMPLE: Final = """\
operatorImage: registry.example.com/dynamo-operator:0.1.0
imagePullSecrets: [registry-key]
planner:
  cachePvc: models
server:
  metrics:
    port: 8080
  healthProbe:
    port: 8081
leaderElection:
  namespace: dynamo-operator-system
"""
"""A file for --config."""

_HEAD: Final = f"""\
<!-- Made by hack/generate; edit the classes in dynamo_operator/settings instead. -->

# Configuration

`dynamo-operator start` (in the image: `/manager`) takes each setting as a flag, as an environment
variable or from a YAML file that `--config FILE` names. A flag wins over the variable, that over
the file, that over the default.

```yaml config.yaml
{EXAMPLE}```

A list is `a,b` or JSON in a flag or variable, and its flag may be given several times; a map is
JSON; `null` takes a default away. What is no setting ends the start with one line that names the
flag, the variable or the file's key, and so does a variable that begins with `DYNAMO_OPERATOR_` and
is none of these. Variables by which the kubelet tells of Services
(`DYNAMO_OPERATOR_WEBHOOK_SERVICE_HOST`) are none of ours.

The cluster is that of `--kubeconfig FILE`, else of `$KUBECONFIG`, else the one that the Pod is in,
else that of `~/.kube/config`; `--context NAME` picks another context than the current one.
"""
_TABLE: Final = "| key | flag, variable | default | meaning |\n|---|---|---|---|"


def configuration_reference() -> str:
    """Return the text of docs/configuration.md."""
    parts = [_HEAD]
    sections: dict[str, list[Setting]] = {}
    for setting in all_settings():
        sections.setdefault(_section(setting), []).append(setting)
    for section, settings in sections.items():
        parts += [f"## {section}\n", _TABLE, *map(_row, settings), ""]
    return "\n".join(parts)


def _section(setting: Setting) -> str:
    section, _, _ = setting.key.rpartition(".")
    return section or "Operator"


def _row(setting: Setting) -> str:
    names = f"`{setting.flag}`<br>`{setting.variable}`"
    meaning = " ".join(_sentences(setting)).replace("|", "\\|")
    return f"| `{setting.key}` | {names} | {_default(setting)} | {meaning} |"


def _default(setting: Setting) -> str:
    if setting.is_required:
        return "required"
    default = setting.default
    if default in ("", [], {}):
        return ""
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _sentences(setting: Setting) -> Iterator[str]:
    meaning = setting.meaning
    yield f"{meaning[:1].upper()}{meaning[1:]}."
    if setting.choices:
        yield f"One of {', '.join(f'`{choice}`' for choice in setting.choices)}."
