"""Scores by what a pod prefers of nodes: node affinity, taints, images.

One score for each row of a call, before its weight. Sources: Kubernetes' `plugins/nodeaffinity`,
`plugins/tainttoleration` and `plugins/imagelocality`, as Volcano's `nodeorder` calls them: node affinity is
the sum of the weights, not normalised; taints are normalised to 0..100 over the nodes of the call.

A difference: where nodes report different sizes of one image, Kubernetes takes the size that it saw first for
all of them; here each node's own size counts.
"""

from __future__ import annotations

import numpy as np

from queues.scoring.node_matches import NodeMatches
from queues.scoring.node_table import View
from queues.scoring.preferences import IMAGE_LIMIT, PREFER_NO_SCHEDULE, PREFERENCE_LIMIT, PodPlacement
from queues.scoring.resource_scores import MAX_SCORE, Rows, Scores

_MB = 1024 * 1024
#: Bytes: less than this of a pod's images counts as nothing, as much as this for each container as all.
_LEAST_IMAGES, _MOST_IMAGES = 23 * _MB, 1000 * _MB


def node_affinity_scores(view: View, rows: Rows, pod: PodPlacement, matches: NodeMatches) -> Scores:
    """The sum of the weights of the preferred terms that a node matches."""
    score = np.zeros(len(rows))
    for preferred in pod.preferred_nodes:
        weight = max(0, min(preferred.weight, PREFERENCE_LIMIT))
        if weight:
            score += matches.term(view, preferred.preference)[rows] * float(weight)
    return score


def taint_scores(view: View, rows: Rows, pod: PodPlacement, matches: NodeMatches) -> Scores:
    """The fewer taints of effect PreferNoSchedule the pod does not tolerate, the better."""
    tolerations = tuple(one for one in pod.tolerations if one.effect in (None, "", PREFER_NO_SCHEDULE))
    counts = matches.intolerable(view, tolerations, soft=True)[rows]
    most = int(counts.max(initial=0))
    if not most:
        return np.full(len(rows), float(MAX_SCORE))
    score: Scores = (MAX_SCORE - MAX_SCORE * counts // most).astype(np.float64)
    return score


def image_scores(view: View, rows: Rows, pod: PodPlacement, matches: NodeMatches) -> Scores:
    """The more bytes of the pod's images a node has, the better; images that few nodes have count less."""
    total = np.zeros(len(rows), dtype=np.int64)
    for image in pod.images[:IMAGE_LIMIT]:
        name = _with_tag(image)
        nodes = view.image_nodes.get(name, 0)
        if nodes:
            share = min(1.0, nodes / max(1, len(view.rows)))  # a node may have come since an empty view
            total += (matches.image_sizes(view, name)[rows] * share).astype(np.int64)
    most = _MOST_IMAGES * max(1, len(pod.images))
    total = np.clip(total, _LEAST_IMAGES, most)
    score: Scores = (MAX_SCORE * (total - _LEAST_IMAGES) // (most - _LEAST_IMAGES)).astype(np.float64)
    return score


def _with_tag(image: str) -> str:
    """The name as nodes report it: with a tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
