"""The pages of docs/ as what they contain: files and shell commands."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ruamel.yaml import YAML

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)


def files_of(page: str) -> dict[str, str]:
    """By name the files that a page shows; what has no name is the page's own module."""
    files: dict[str, str] = {}
    for language, name, text in BLOCK.findall((DOCS / f"{page}.md").read_text()):
        if name or language == "python":
            name = name or f"{page}.py"
            files[name] = files.get(name, "") + text
    return files


def commands_of(page: str) -> list[str]:
    """The page's shell commands, block for block."""
    blocks = BLOCK.findall((DOCS / f"{page}.md").read_text())
    return [text for language, _, text in blocks if language == "sh"]


def module_of(page: str, monkeypatch: Any, name: str = "") -> Any:
    """A page's module, run, while `widgets` is the quick start's."""
    name = name or f"{page}.py"
    module = ModuleType(name.removesuffix(".py"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(files_of(page)[name], f"docs/{page}.md", "exec"), vars(module))
    return module


def definition() -> dict[str, Any]:
    """The quick start's CustomResourceDefinition."""
    made: dict[str, Any] = YAML(typ="safe").load(files_of("quick_start")["crd.yaml"])
    return made
