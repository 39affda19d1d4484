"""The operator's settings from flags, environment and a configuration file, in that order.

One schema, `OperatorSettings`: `run_history_limit` is `--run-history-limit`,
`DYNAMO_OPERATOR_RUN_HISTORY_LIMIT` and `runHistoryLimit` in the file; `planner.cache_pvc` is
`--planner.cache-pvc`, `DYNAMO_OPERATOR_PLANNER__CACHE_PVC` and `planner: {cachePvc: ...}`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_origin

from pydantic import BaseModel

from dynamo_operator.app import OperatorSettings
from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.cli.manifests import read_manifests

_PREFIX = "DYNAMO_OPERATOR_"
Path = tuple[str, ...]


def add_settings_flags(parser: argparse.ArgumentParser) -> None:
    """Add --config and one flag for each setting."""
    group = parser.add_argument_group(
        "settings",
        "Each is a flag, a variable (DYNAMO_OPERATOR_RUN_HISTORY_LIMIT) or a key of the --config"
        " file (runHistoryLimit), in this order. A list is written as a,b or JSON, a map as JSON.",
    )
    group.add_argument("--config", metavar="FILE", help="YAML with settings in camelCase")
    for path in setting_paths():
        group.add_argument(
            setting_flag(path),
            dest=_destination(path),
            default=None,
            metavar="VALUE",
            help=setting_meaning(path).replace("%", "%%"),
        )


def setting_paths(model: type[BaseModel] = OperatorSettings, prefix: Path = ()) -> Iterator[Path]:
    """Yield the path of every setting that is a value, sections being descended into."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from setting_paths(annotation, (*prefix, name))
        else:
            yield (*prefix, name)


def setting_flag(path: Path) -> str:
    """Return the flag of a setting."""
    return "--" + ".".join(part.replace("_", "-") for part in path)


def setting_meaning(path: Path) -> str:
    """Return what the docstring of a setting's class says of it."""
    documented = inspect.getdoc(_model_of(path)) or ""
    found = re.search(rf"^    {path[-1]}: (.*(?:\n {{8}}.*)*)", documented, re.MULTILINE)
    return " ".join(found[1].split()).removesuffix(".") if found else ""


def setting_variable(path: Path) -> str:
    """Return the environment variable of a setting."""
    return _PREFIX + "__".join(path).upper()


def read_settings(arguments: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the merged settings, snake_case, for `OperatorSettings.model_validate`.

    Raises:
        CliError: the file is unreadable or has an unknown key.
    """
    settings: dict[str, Any] = {}
    known = set(setting_paths())
    if arguments.config:
        document, *more = read_manifests(arguments.config)
        if more:
            raise CliError(f"{arguments.config}: holds more than one document", exit_code=USAGE)
        for path, value in _leaves(document, known):
            if path not in known:
                shown = ".".join(path)
                raise CliError(f"{arguments.config}: no setting is called {shown}", exit_code=USAGE)
            _put(settings, path, value)
    for path in sorted(known):
        variable = setting_variable(path)
        flag = getattr(arguments, _destination(path))
        if flag is not None:
            _put(settings, path, _parsed(flag, path))
        elif variable in environ:
            _put(settings, path, _parsed(environ[variable], path))
    return settings


def _leaves(
    node: Mapping[str, Any], known: set[Path], prefix: Path = ()
) -> Iterator[tuple[Path, Any]]:
    for key, value in node.items():
        path = (*prefix, _snake(str(key)))
        inside = any(each[: len(path)] == path and len(each) > len(path) for each in known)
        if inside and isinstance(value, Mapping):
            yield from _leaves(value, known, path)
        else:
            yield path, value


def _parsed(text: str, path: Path) -> Any:
    """Read a flag or variable: JSON for lists and maps, a,b for lists, null; else text."""
    if text == "null":
        return None
    if text[:1] in "[{":
        try:
            return json.loads(text)
        except ValueError as error:
            shown = ".".join(path)
            raise CliError(
                f"setting {shown}: {text!r} is no JSON: {error}", exit_code=USAGE
            ) from None
    if _is_list(path):
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _is_list(path: Path) -> bool:
    return get_origin(_model_of(path).model_fields[path[-1]].annotation) is tuple


def _model_of(path: Path) -> type[BaseModel]:
    """Return the class, of all settings or of a section, that has the setting."""
    model: Any = OperatorSettings
    for section in path[:-1]:
        model = model.model_fields[section].annotation
    found: type[BaseModel] = model
    return found


def _put(settings: dict[str, Any], path: Path, value: Any) -> None:
    *sections, last = path
    node = settings
    for section in sections:
        node = node.setdefault(section, {})
    node[last] = value


def _destination(path: Path) -> str:
    return "setting_" + "__".join(path)


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
