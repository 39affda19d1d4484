"""Which errors can only be mistakes in the code: what other languages call a panic."""

from __future__ import annotations

from typing import Final

DEFECTS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    TypeError,
)
