"""The operator's settings from flags, environment and a configuration file, in that order."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_snake
from pydantic_core import ErrorDetails

from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.cli.manifests import read_manifests
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.settings.schema import VARIABLE_PREFIX, Path, Setting, all_settings

_SETTINGS: dict[Path, Setting] = {setting.path: setting for setting in all_settings()}

_OTHER_SPELLINGS: dict[Path, str] = {("watch_namespaces",): "--watch-namespace"}

_PROBLEMS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a map",
    "enum": "must be {expected}",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "path_type": "must be a path",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
"""What is said of pydantic's kinds of errors; of the others its own words."""


def add_settings_flags(parser: argparse.ArgumentParser) -> None:
    """Add --config and one flag for each setting."""
    group = parser.add_argument_group(
        "settings",
        "Each is a flag, a variable (DYNAMO_OPERATOR_RUN_HISTORY_LIMIT) or a key of the --config"
        " file (runHistoryLimit), in this order. A list is written as a,b or JSON, or its flag is"
        " given several times; a map is JSON.",
    )
    group.add_argument("--config", metavar="FILE", help="YAML with settings in camelCase")
    for path, setting in _SETTINGS.items():
        spellings = [setting.flag, *filter(None, [_OTHER_SPELLINGS.get(path)])]
        group.add_argument(
            *spellings,
            dest=_destination(path),
            default=None,
            metavar="VALUE",
            action="append" if setting.is_list else "store",
            help=setting.meaning.replace("%", "%%"),
        )


def load_settings(arguments: argparse.Namespace, environ: Mapping[str, str]) -> OperatorSettings:
    """Return the settings that flags, environment and file make together.

    Raises:
        CliError: one of them is wrong; names the flag, the variable, or the file and its key.
    """
    values: dict[str, Any] = {}
    for setting in _SETTINGS.values():
        if not setting.is_required:
            _put(values, setting.path, setting.default)
    origins: dict[Path, str] = {}
    for path, value, origin in (
        *_of_file(arguments.config),
        *_of_environment(environ),
        *_of_flags(arguments),
    ):
        _put(values, path, value)
        origins[path] = origin
    try:
        return OperatorSettings.model_validate(values)
    except ValidationError as error:
        raise CliError(_told(error.errors()[0], origins), exit_code=USAGE) from None


Given = Iterator[tuple[Path, Any, str]]
"""Path, value and origin of each setting that somebody gave."""


def _of_file(file: str | None) -> Given:
    if file is None:
        return
    documents = read_manifests(file, may_be_empty=True)
    if len(documents) > 1:
        raise CliError(f"{file}: holds more than one document", exit_code=USAGE)
    keys = {tuple(setting.key.split(".")): path for path, setting in _SETTINGS.items()}
    sections = {key[:length] for key in keys for length in range(1, len(key))}
    for document in documents:
        for key, value in _leaves(document, sections):
            shown = ".".join(key)
            if key in sections:
                problem = f"must be a map of settings, not {value!r}"
                raise CliError(f"{file}: {shown}: {problem}", exit_code=USAGE)
            if key not in keys:
                known = map(".".join, (*keys, *sections))
                raise CliError(
                    f"{file}: {shown}: is no setting{_nearest(shown, known)}", exit_code=USAGE
                )
            yield keys[key], value, f"{file}: {shown}"


def _leaves(
    node: Mapping[Any, Any], sections: set[Path], prefix: Path = ()
) -> Iterator[tuple[Path, Any]]:
    for name, value in node.items():
        key = (*prefix, str(name))
        if key in sections and isinstance(value, Mapping):
            yield from _leaves(value, sections, key)
        elif key not in sections or value is not None:  # a section may be left empty
            yield key, value


def _of_environment(environ: Mapping[str, str]) -> Given:
    variables = {setting.variable: setting for setting in _SETTINGS.values()}
    # What a kubelet tells every container of the Services in its namespace, ours among them.
    links = [name.removesuffix("HOST") for name in environ if name.endswith("_SERVICE_HOST")]
    of_services = tuple(prefix for link in links for prefix in (link, _port_prefix(link)))
    for variable, text in sorted(environ.items()):
        if not variable.startswith(VARIABLE_PREFIX):
            continue
        setting = variables.get(variable)
        if setting is not None:
            yield setting.path, _parsed(text, setting, variable), variable
        elif not variable.startswith(of_services):
            nearest = _nearest(variable, variables)
            raise CliError(f"{variable}: is no setting{nearest}; unset it", exit_code=USAGE)


def _port_prefix(service: str) -> str:
    return service.removesuffix("SERVICE_") + "PORT"


def _of_flags(arguments: argparse.Namespace) -> Given:
    for path, setting in _SETTINGS.items():
        given = getattr(arguments, _destination(path))
        if given is None:
            continue
        texts = given if setting.is_list else [given]
        values = [_parsed(text, setting, setting.flag) for text in texts]
        yield path, values[0] if len(values) == 1 else _joined(values), setting.flag


def _joined(values: Sequence[Any]) -> list[Any]:
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _parsed(text: str, setting: Setting, origin: str) -> Any:
    """Read a flag or variable: JSON for lists and maps, a,b for lists, null; else text."""
    if text == "null":
        return None
    if text[:1] in "[{" and text:
        try:
            return json.loads(text)
        except ValueError as error:
            raise CliError(f"{origin}: {text!r} is no JSON: {error}", exit_code=USAGE) from None
    if setting.is_list:
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _told(error: ErrorDetails, origins: Mapping[Path, str]) -> str:
    """Say in one line what is wrong, and where whoever gave it finds it."""
    path = tuple(str(part) for part in error["loc"])
    names = tuple(map(to_snake, path))
    setting = next((s for s in _SETTINGS.values() if names[: len(s.path)] == s.path), None)
    if setting is None:  # settings that do not go together
        given = [origin for at, origin in origins.items() if names and at[: len(names)] == names]
        return f"{', '.join(given) or 'settings'}: {_problem(error)}"
    inside = "".join(f"[{part}]" for part in path[len(setting.path) :])
    if error["type"] == "missing" and not inside:
        ways = f"{setting.flag}, {setting.variable}, or {setting.key} in the --config file"
        return f"a setting is missing: give {ways}"
    return f"{origins.get(setting.path, setting.key)}{inside}: {_problem(error)}"


def _problem(error: ErrorDetails) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    told = _PROBLEMS.get(error["type"])
    words = told.format(**error.get("ctx", {})) if told else error["msg"]
    return f"{words}, not {error['input']!r}"


def _nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, known, n=1)
    return f"; nearest is {found[0]}" if found else ""


def _put(settings: dict[str, Any], path: Path, value: Any) -> None:
    *sections, last = path
    node = settings
    for section in sections:
        node = node.setdefault(section, {})
    node[last] = value


def _destination(path: Path) -> str:
    return "setting_" + "__".join(path)
