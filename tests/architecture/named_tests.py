"""Tests that a page names as `tests/path.py::test_name`: those that do not exist are found."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")


@cache
def names_in(path):
    """The test functions and whatever else is defined at the top of a file; none without it."""
    if not (ROOT / path).is_file():
        return frozenset()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def missing_tests(cell):
    """What is wrong with a cell of test names, separated by commas."""
    for named in cell.replace("`", "").split(","):
        match = TEST.fullmatch(named.strip())
        if match is None:
            yield f"{named.strip()!r} is no tests/path.py::test_name"
        elif match[2] not in names_in(match[1]):
            yield f"{named.strip()} does not exist"
