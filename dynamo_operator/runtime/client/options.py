"""What the calls of a client have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dynamo_operator.runtime.client.writes import WriteObserver

DEFAULT_FIELD_MANAGER = "operator-runtime"

FieldValidation = Literal["Strict", "Warn", "Ignore"]
"""What the server does with unknown and repeated fields: refuse, warn of, or drop them."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of a client, each changed by one of its `with_` methods.

    Attributes:
        field_manager: whom writes are attributed to.
        namespace: where objects without a namespace belong.
        confined: whether other namespaces are refused.
        dry_run: whether writes are only tried.
        field_validation: of what is written.
        write_observers: told of every write that the server stored.
    """

    field_manager: str = DEFAULT_FIELD_MANAGER
    namespace: str = "default"
    confined: bool = False
    dry_run: bool = False
    field_validation: FieldValidation = "Strict"
    write_observers: tuple[WriteObserver, ...] = ()
