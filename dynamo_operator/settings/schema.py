"""Each setting's names, meaning and default, read off the classes that declare them.

`run_history_limit` is `--run-history-limit`, `DYNAMO_OPERATOR_RUN_HISTORY_LIMIT` and
`runHistoryLimit` in the file; `planner.cache_pvc` is `--planner.cache-pvc`,
`DYNAMO_OPERATOR_PLANNER__CACHE_PVC` and `planner: {cachePvc: ...}`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from dynamo_operator.settings.operator import OperatorSettings

VARIABLE_PREFIX: Final = "DYNAMO_OPERATOR_"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that can be set.

    Args:
        path: names of its sections, outermost first, and of itself.
        model: the class of the section that has it.
        default: as plain JSON; of a required one None.
    """

    path: Path
    model: type[BaseModel]
    default: Any

    @property
    def flag(self) -> str:
        """Its flag."""
        return "--" + ".".join(part.replace("_", "-") for part in self.path)

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return VARIABLE_PREFIX + "__".join(self.path).upper()

    @property
    def key(self) -> str:
        """Its key in the file, a dot for each section."""
        return ".".join(map(to_camel, self.path))

    @property
    def meaning(self) -> str:
        """What the docstring of its section's class says of it."""
        documented = inspect.getdoc(self.model) or ""
        found = re.search(rf"^    {self.path[-1]}: (.*(?:\n {{8}}.*)*)", documented, re.MULTILINE)
        return " ".join(found[1].split()).removesuffix(".") if found else ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be, if it is one of a few."""
        annotation = self.field.annotation
        if get_origin(annotation) is Literal:
            return get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, StrEnum):
            return tuple(map(str, annotation))
        return ()

    @property
    def is_list(self) -> bool:
        """Whether it holds several values."""
        return get_origin(self.field.annotation) is tuple

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.field.is_required()

    @property
    def field(self) -> FieldInfo:
        """Its declaration."""
        return self.model.model_fields[self.path[-1]]


def all_settings(
    model: type[BaseModel] = OperatorSettings,
    sections: Path = (),
    defaults: BaseModel | None = None,
) -> Iterator[Setting]:
    """Yield every setting in the order of declaration, sections being descended into.

    Args:
        model: the class to begin with.
        sections: the names by which it was reached.
        defaults: what it is by default, where that is not what its own fields say.
    """
    for name, field in model.model_fields.items():
        path = (*sections, name)
        default = field.default if defaults is None else getattr(defaults, name)
        if isinstance(default, BaseModel):
            yield from all_settings(type(default), path, default)
        else:
            yield Setting(path, model, None if field.is_required() else to_jsonable_python(default))
