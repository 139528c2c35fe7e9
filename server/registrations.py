"""What our webhook configurations and admission policies have to say, by the settings."""

from __future__ import annotations

from queues.mode import Mode
from queues.registration.coverage import Expected
from queues.registration.selectors import Term
from server.settings import Settings


def expected_registrations(settings: Settings) -> Expected:
    membership, managed = settings.membership_settings, settings.membership_settings.managed_namespaces
    return Expected(
        service=settings.service,
        namespace=settings.namespace,
        hosts=frozenset(settings.served_hosts),
        own_user=settings.admission_settings.own_user,
        exempt=membership.exempt_namespaces,
        managed=frozenset(
            Term(each.key, each.operator, each.values) for each in (managed.requirements if managed else ())
        ),
        schedulers=membership.owned_schedulers,
        kueue=membership.kueue,
        guard_fails_closed=settings.mode == Mode.GATE,
    )
