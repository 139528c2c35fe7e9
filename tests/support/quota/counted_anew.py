"""What counts in the quotas of a leader, counted from nothing: its pods, what it has begun, what it keeps."""

from __future__ import annotations

from cluster.cache.members import Member
from cluster.cache.store import Store
from controller.quota.releases import QuotaReleases
from queues.apimachinery.quantities import Amount, add_amounts
from queues.quota.ledger import AmountReason

ByReason = dict[AmountReason, dict[str, Amount]]


def miscounted(releases: QuotaReleases, store: Store) -> list[str]:
    """What its ledger has otherwise, once it has read all that has changed."""
    waiting, tree = releases._waiting, store.snapshot.tree
    if not waiting.has_begun:
        return []
    counted = {queue: amounts for queue, amounts in counted_anew(releases, store).items() if queue in tree}
    found = {queue: waiting.ledger.amounts(queue) for queue in counted}
    wrong = [
        f"{queue}: {found[queue]} counts for {of_queue}"
        for queue, of_queue in counted.items()
        if found[queue] != of_queue
    ]
    used: dict[str, dict[str, Amount]] = {queue: {} for queue in counted}
    for queue in waiting.ledger.queues():
        for above in tree.counting_chain(queue):
            for amounts in waiting.ledger.amounts(queue).values():
                add_amounts(used.setdefault(above, {}), amounts.items())
    for queue, of_queue in used.items():
        together = {name: amount for name, amount in waiting.ledger.usage.used(queue).items() if amount}
        if together != of_queue:
            wrong.append(f"{queue} uses {together} in place of {of_queue}")
    return wrong


def is_ungated(member: Member) -> bool:
    return not (member.gated or member.quota_gated)


def counted_anew(releases: QuotaReleases, store: Store) -> dict[str, ByReason]:
    """By queue, of those with a quota."""
    waiting, rules = releases._waiting, releases._waiting.rules
    counted: dict[str, ByReason] = {queue: {} for queue in store.snapshot.tree if rules.is_counted(queue)}

    def count(queue: str, reason: AmountReason, amounts: tuple[tuple[str, Amount], ...]) -> None:
        if queue in counted:
            add_amounts(counted[queue].setdefault(reason, {}), amounts)

    begun = {*releases._intents, *releases._in_doubt}
    for uid, member in store.members._by_uid.items():
        requests = rules.requests(member)
        if member.uses_quota:
            count(member.queue, AmountReason.USED, requests)
        elif uid in begun:
            count(member.queue, AmountReason.RELEASING, requests)
        elif is_ungated(member) and rules.may_be_released(member):
            never = waiting.ledger.usage.never_lack(member.queue, requests) is not None
            count(member.queue, AmountReason.UNGATED, () if never else requests)
    for queue in counted:
        count(queue, AmountReason.FORCE_DELETED, tuple(store.force_deleted.used(queue).items()))
    for state in waiting._gangs._states.values():
        count(state.queue, AmountReason.KEPT, state.counted)
    for (queue, requests), number in waiting.reservations.numbers.items():
        count(queue, AmountReason.SET_ASIDE, tuple((name, number * amount) for name, amount in requests))
    return {
        queue: {reason: amounts for reason, amounts in by_reason.items() if amounts}
        for queue, by_reason in counted.items()
    }
