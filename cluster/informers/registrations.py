"""The watches of our webhook configurations and admission policies.

The configurations are watched by their name: our role allows no other. Policies and bindings cannot be: there
are several of ours, and a watch by name is one of a single object.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from cluster.cache.registrations import (
    AdmissionPolicy,
    AdmissionPolicyBinding,
    RegistrationKind,
    Registrations,
    WebhookConfiguration,
)
from cluster.informers.informers import AuxiliaryKind, ObjectDecoder
from queues.apimachinery.lenient import LenientReader
from queues.registration.needs import NAME

API = "/apis/admissionregistration.k8s.io/v1"


# Made here, at import, as all decoders are (`cluster.informers.informers`).
_CONFIGURATION = ObjectDecoder(
    msgspec.json.Decoder(WebhookConfiguration).decode, LenientReader(WebhookConfiguration)
)
_POLICY = ObjectDecoder(msgspec.json.Decoder(AdmissionPolicy).decode, LenientReader(AdmissionPolicy))
_BINDING = ObjectDecoder(
    msgspec.json.Decoder(AdmissionPolicyBinding).decode, LenientReader(AdmissionPolicyBinding)
)
_KINDS = (
    (RegistrationKind.MUTATING, "mutatingwebhookconfigurations", _CONFIGURATION, f"metadata.name={NAME}"),
    (RegistrationKind.VALIDATING, "validatingwebhookconfigurations", _CONFIGURATION, f"metadata.name={NAME}"),
    (RegistrationKind.POLICIES, "validatingadmissionpolicies", _POLICY, ""),
    (RegistrationKind.BINDINGS, "validatingadmissionpolicybindings", _BINDING, ""),
)


def registration_kinds(registrations: Registrations) -> Iterator[AuxiliaryKind]:
    for kind, resource, decoder, selector in _KINDS:
        yield AuxiliaryKind(
            kind=kind.value,
            path=f"{API}/{resource}",
            labels="",
            selector=selector,
            decoder=decoder,
            handler=registrations.handler(kind),
            synced=registrations.synced[kind],
            refused=partial(registrations.note_refused, kind),
        )
