"""Webhook configurations and admission policies as the API server has them: what it asks, and whom."""

from __future__ import annotations

from typing import Any

import msgspec


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Fields that are absent or null have the API server's defaults."""


class Rule(_Part, frozen=True):
    """What is asked about. A rule of a policy has no `scope`: it means all scopes."""

    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    scope: str | None = "*"
    resource_names: tuple[str, ...] | None = None


class CelExpression(_Part, frozen=True):
    """A condition, a variable or a validation, in CEL. A validation has no name."""

    expression: str = ""
    name: str = ""


class ServiceReference(_Part, frozen=True):
    """`path`: null is the root."""

    namespace: str = ""
    name: str = ""
    path: str | None = None


class ClientConfig(_Part, frozen=True):
    """Who is called, a Service or a URL, and whose certificates are trusted."""

    service: ServiceReference | None = None
    url: str | None = None
    ca_bundle: str | None = None


class Webhook(_Part, frozen=True):
    """An entry of a webhook configuration. Selectors are as JSON has them."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()
    rules: tuple[Rule, ...] | None = None
    namespace_selector: Any = None
    object_selector: Any = None
    match_conditions: tuple[CelExpression, ...] | None = None
    failure_policy: str | None = "Fail"
    timeout_seconds: int | None = 10


class MatchResources(_Part, frozen=True):
    """What a policy, or one of its bindings, is about."""

    resource_rules: tuple[Rule, ...] | None = None
    exclude_resource_rules: tuple[Rule, ...] | None = None
    namespace_selector: Any = None
    object_selector: Any = None


class AdmissionPolicySpec(_Part, frozen=True):
    """The spec of a ValidatingAdmissionPolicy."""

    failure_policy: str | None = "Fail"
    match_constraints: MatchResources | None = None
    match_conditions: tuple[CelExpression, ...] | None = None
    validations: tuple[CelExpression, ...] | None = None
    variables: tuple[CelExpression, ...] | None = None
    param_kind: Any = None


class PolicyBindingSpec(_Part, frozen=True):
    """The spec of a ValidatingAdmissionPolicyBinding."""

    policy_name: str = ""
    validation_actions: tuple[str, ...] | None = None
    match_resources: MatchResources | None = None
    param_ref: Any = None
