"""The pods of some queues, listed with the user's rights.

Promises
- Members carry label `sluice.dev/queue`: they are listed by it, page by page, and of each page only what the
  rules need is kept.
- A member without the label is found all the same, as the leader finds it (`controller.pods.member_labels`):
  of all pods on nodes that lack it the metadata is listed, and what is a member of these queues is read.
- A pod's queue is the one that the server has it in (`queues.membership`), by the settings' defaults.
- Where namespaces or PodGroups may not be read, and one would decide, a warning says what is left out.
- Where the user may not read the pods of all namespaces, those of one are read, and a warning says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.errors import ForbiddenError, KindMissingError, NotFoundError
from kubectl_queue.objects.fields import Object, annotations_of, labels_of, name_of, spec_of, value_at
from kubectl_queue.objects.types import NAMESPACE, POD, PODGROUP, Type
from kubectl_queue.why.membership import queue_of_namespace, queue_of_stored_pod
from queues import well_known
from queues.membership import (
    NAMING_ANNOTATIONS,
    NAMING_LABELS,
    MembershipSettings,
    fits_label,
    label_value,
)
from queues.queue import DEFAULT

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_ON_NODES = f"spec.nodeName!=,{UNFINISHED}"
#: Queues named in one label selector, as in `controller.drain.snapshot`.
_QUEUES_PER_SELECTOR = 50
#: Single objects that are read by name; more than that are listed.
MAX_SINGLE = 5
_RULES = MembershipSettings()
#: What decides of which queue something is, as a warning says it.
_DECIDES: Mapping[Type, str] = {
    NAMESPACE: "its namespace alone is left out",
    PODGROUP: "its PodGroup alone is left out",
}
_NAMES = frozenset({well_known.QUEUE, *NAMING_ANNOTATIONS, *NAMING_LABELS})


class NamedObjects(ObjectReader):
    """Reads single objects. Namespaces and PodGroups, which decide membership, are listed once instead: many
    pods ask for many of them. Of each of these kinds that may not be read one warning says so.
    """

    def __init__(
        self, client: ApiClient, *, only: Callable[[], str], warn: Callable[[str], None] = lambda _text: None
    ) -> None:
        """`only`: the one namespace that is read; "": all are."""
        super().__init__(client)
        self._lists = client
        self._only = only
        self._warn = warn
        self._refused: set[str] = set()
        self._listed: dict[str, Mapping[tuple[str, str], Object]] = {}

    def find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        if kind not in {NAMESPACE, PODGROUP} or self._only():
            return super().find(kind, name, namespace=namespace)
        if kind.full not in self._listed:
            self._listed[kind.full] = self._list(kind)
        return self._listed[kind.full].get((namespace if kind.namespaced else "", name))

    def _list(self, kind: Type) -> Mapping[tuple[str, str], Object]:
        found: dict[tuple[str, str], Object] = {}
        try:
            for page in self._lists.pages(
                f"{kind.base}/{kind.resource}", query={}, kind=kind.full, metadata_only=kind is NAMESPACE
            ):
                found |= {
                    (str(value_at(each, "metadata.namespace") or ""), name_of(each)): each
                    for each in page.items
                }
        except ForbiddenError as exc:
            self._say_refused(kind, exc)
            return {}
        except KindMissingError:
            return {}
        return found

    def _find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        try:
            return self.get(kind, name, namespace=namespace)
        except ForbiddenError as exc:
            self._say_refused(kind, exc)
        except (NotFoundError, KindMissingError):
            pass
        return None

    def _say_refused(self, kind: Type, refusal: ForbiddenError) -> None:
        if kind in _DECIDES and kind.full not in self._refused:
            self._refused.add(kind.full)
            self._warn(f"{kind.full} may not be read: what is in a queue by {_DECIDES[kind]}: {refusal}")


class PodLists:
    """For one command. `queues`: all that there are, which labels of long names are looked up in.
    `namespace`: the one to read where the user may not read all.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        queues: Collection[str],
        namespace: Callable[[], str],
        warn: Callable[[str], None],
    ) -> None:
        self._client = client
        self._queues = queues
        self._namespace = namespace
        self._warn = warn
        #: The only namespace that is read; empty: all are.
        self.only = ""
        self.objects = NamedObjects(client, only=lambda: self.only, warn=warn)

    def queue_of(self, pod: Object) -> str:
        """The queue of a pod, "" for none."""
        return queue_of_stored_pod(pod, self.objects, queue_of_label=self._queue_of_label)

    def _queue_of_label(self, label: str) -> str:
        if "_" not in label:  # only the labels of long names have one
            return label
        return next((name for name in self._queues if fits_label(name, label)), label)

    def on_nodes(self, queues: Collection[str]) -> Iterator[tuple[Object, str]]:
        """The unfinished pods of these queues that are on nodes, each with its queue.

        Raises ForbiddenError where no pods may be read.
        """
        for pod in self._labelled(queues):
            queue = self.queue_of(pod)
            if queue in queues:
                yield pod, queue
        yield from self._unlabelled(queues)

    def _labelled(self, queues: Collection[str]) -> Iterator[Object]:
        # An empty label: the pod waited for its PodGroup when it was created.
        values = ["", *sorted(map(label_value, queues))]
        for start in range(0, len(values), _QUEUES_PER_SELECTOR):
            labels = values[start : start + _QUEUES_PER_SELECTOR]
            selector = f"{well_known.QUEUE} in ({','.join(labels)})"
            yield from self._pages({"labelSelector": selector, "fieldSelector": _ON_NODES})

    def _unlabelled(self, queues: Collection[str]) -> Iterator[tuple[Object, str]]:
        wanted: dict[str, set[str]] = {}
        implied: dict[str, bool] = {}
        for pod in self._unlabelled_metadata(queues):
            if self._may_be_in(queues, pod, implied) and self.queue_of(pod) in queues:
                wanted.setdefault(str(value_at(pod, "metadata.namespace")), set()).add(name_of(pod))
        for namespace, names in sorted(wanted.items()):
            for pod in self._named(namespace, names):
                # By now it may have the label, or be another one of that name.
                queue = self.queue_of(pod)
                if queue in queues and well_known.QUEUE not in labels_of(pod):
                    yield pod, queue

    def _may_be_in(self, queues: Collection[str], pod: Object, implied: dict[str, bool]) -> bool:
        """Whether something names its queue at all: most of these pods are in none, and there may be many.

        `implied`: by namespace, whether that names one of these queues.
        """
        if _NAMES & (annotations_of(pod).keys() | labels_of(pod).keys()) or spec_of(pod):
            return True
        namespace = str(value_at(pod, "metadata.namespace"))
        if namespace not in implied:
            implied[namespace] = queue_of_namespace(pod, self.objects) in queues
        return implied[namespace]

    def _unlabelled_metadata(self, queues: Collection[str]) -> Iterator[Object]:
        without = {"labelSelector": f"!{well_known.QUEUE}"}
        exempt = ",".join(f"metadata.namespace!={name}" for name in sorted(_RULES.exempt_namespaces))
        fields = f"{_ON_NODES},{exempt}"
        yield from self._pages({**without, "fieldSelector": fields}, metadata_only=True)
        if DEFAULT not in queues:
            return
        for scheduler in sorted(_RULES.owned_schedulers):  # metadata does not say which scheduler a pod has
            query = {**without, "fieldSelector": f"{fields},spec.schedulerName={scheduler}"}
            for pod in self._pages(query, metadata_only=True):
                yield {**pod, "spec": {"schedulerName": scheduler}}

    def _named(self, namespace: str, names: Collection[str]) -> Iterator[Object]:
        if len(names) <= MAX_SINGLE:
            for name in sorted(names):
                try:
                    yield self.objects.get(POD, name, namespace=namespace)
                except NotFoundError:
                    continue
            return
        query = {"labelSelector": f"!{well_known.QUEUE}", "fieldSelector": _ON_NODES}
        for pod in self.in_namespace(namespace, query):
            if name_of(pod) in names:
                yield pod

    def in_namespace(self, namespace: str, query: Mapping[str, str]) -> Iterator[Object]:
        path = f"{POD.base}/namespaces/{quote(namespace, safe='')}/{POD.resource}"
        for page in self._client.pages(path, query=query, kind=POD.full):
            yield from page.items

    def _pages(self, query: Mapping[str, str], *, metadata_only: bool = False) -> Iterator[Object]:
        """The pods of all namespaces, or of the only one that may be read."""
        if not self.only:
            path = f"{POD.base}/{POD.resource}"
            pages = self._client.pages(path, query=query, kind=POD.full, metadata_only=metadata_only)
            try:
                first = next(pages)
            except ForbiddenError as exc:
                self._confine(exc)
            else:
                yield from first.items
                for page in pages:
                    yield from page.items
                return
        path = f"{POD.base}/namespaces/{quote(self.only, safe='')}/{POD.resource}"
        for page in self._client.pages(path, query=query, kind=POD.full, metadata_only=metadata_only):
            yield from page.items

    def _confine(self, refusal: ForbiddenError) -> None:
        """From now on one namespace is read. Raises ForbiddenError where that may not be read either."""
        only = self._namespace()
        path = f"{POD.base}/namespaces/{quote(only, safe='')}/{POD.resource}"
        try:
            next(self._client.pages(path, query={"limit": "1"}, kind=POD.full))
        except ForbiddenError as exc:
            exc.add_note("; name yours: -n NAMESPACE")
            raise
        self.only = only
        self._warn(f'only the pods of namespace "{only}" are read (another: -n NAME): {refusal}')
