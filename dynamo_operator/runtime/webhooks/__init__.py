"""Webhooks: defaulting, validation and conversion of objects at the API server's request.

Here belongs what answers its reviews, serves them over TLS and has it trust us. What decides about
a kind of ours does not.

Names are exported lazily (PEP 562): only a `SecretCertificate` needs the `webhooks` extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamo_operator.runtime.webhooks.admission import (
        Admission,
        DeniedError,
        GroupVersionKind,
        GroupVersionResource,
        Handler,
        MalformedReviewError,
        Requester,
        Verdict,
        all_of,
    )
    from dynamo_operator.runtime.webhooks.certificates import (
        CertificateError,
        SecretCertificate,
        configuration_permissions,
        secret_permissions,
    )
    from dynamo_operator.runtime.webhooks.configuration import (
        ServiceEndpoint,
        UrlEndpoint,
        conversion_strategy,
        mutating_configuration,
        validating_configuration,
    )
    from dynamo_operator.runtime.webhooks.conversion import (
        ConversionError,
        Converter,
        FunctionConversion,
        HubConversion,
        Spoke,
    )
    from dynamo_operator.runtime.webhooks.key_material import Lifetimes
    from dynamo_operator.runtime.webhooks.server import Webhooks, WebhookServerError
    from dynamo_operator.runtime.webhooks.webhook import Webhook

__all__ = [
    "Admission",
    "CertificateError",
    "ConversionError",
    "Converter",
    "DeniedError",
    "FunctionConversion",
    "GroupVersionKind",
    "GroupVersionResource",
    "Handler",
    "HubConversion",
    "Lifetimes",
    "MalformedReviewError",
    "Requester",
    "SecretCertificate",
    "ServiceEndpoint",
    "Spoke",
    "UrlEndpoint",
    "Verdict",
    "Webhook",
    "WebhookServerError",
    "Webhooks",
    "all_of",
    "configuration_permissions",
    "conversion_strategy",
    "mutating_configuration",
    "secret_permissions",
    "validating_configuration",
]

_MODULES = {
    "admission": (
        "Admission DeniedError GroupVersionKind GroupVersionResource Handler MalformedReviewError "
        "Requester Verdict all_of"
    ),
    "certificates": (
        "CertificateError SecretCertificate configuration_permissions secret_permissions"
    ),
    "configuration": (
        "ServiceEndpoint UrlEndpoint conversion_strategy mutating_configuration "
        "validating_configuration"
    ),
    "conversion": "ConversionError Converter FunctionConversion HubConversion Spoke",
    "key_material": "Lifetimes",
    "server": "WebhookServerError Webhooks",
    "webhook": "Webhook",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
