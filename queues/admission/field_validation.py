"""Whether an edit of a Queue's `spec` leaves each field as it may be, whatever the other queues hold.

Promises
- A refusal is one line: the field, its value (cut), what it should be.
- Only what an edit changes is checked: a field that is stored already passes, whatever it holds. So a faulty
  object can be corrected field by field.
- null is the same as absent, as it is for the API server.

The checks are those of the table (`queues.fields.table`). The CustomResourceDefinition
(`manifests/crds/queues.yaml`) has most of them too, and the API server applies it first. Only here it is
checked that no amount is negative or greater than 2^63-1, the names of resources and labels, that Kubernetes
would accept a selector, the keys of a ConfigMap, and control characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queues.fields.checks import BadField, check_change
from queues.fields.table import FIELDS


def field_refusal(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """What is wrong with the first faulty field that an edit changes; `before`: {} for a new queue."""
    try:
        for row in FIELDS:
            check_change(row.check, f"spec.{row.name}", after.get(row.name), before.get(row.name))
    except BadField as exc:
        return str(exc)
    return None
