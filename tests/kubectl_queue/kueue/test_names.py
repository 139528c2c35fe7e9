"""Which queue a LocalQueue is, and that no two queues have one name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from queues.membership import valid_name
from tests.support.examples import examples
from tests.support.plugin.kueue_objects import Converted, cluster_queue, converted, local_queue

AMBIGUOUS = "LocalQueue: this name leads to different queues in different namespaces"


def said(found: Converted, start: str) -> list[str]:
    """What is said in brackets at the end of the lines that begin so."""
    return [line.rpartition("(")[2].rstrip(")") for line in found.warnings if line.startswith(start)]


def test_a_cluster_queue_has_the_name_of_its_local_queues() -> None:
    """Label kueue.x-k8s.io/queue-name of the work goes on naming it."""
    found = converted(cluster_queue("a-cq"), local_queue("x", "a", "a-cq"), local_queue("y", "a", "a-cq"))
    assert list(found.specs) == ["a"]
    assert found.warnings == ['ClusterQueue: is queue "a", as its LocalQueues are called (a-cq)']


def test_one_without_local_queues_keeps_its_name() -> None:
    assert list(converted(cluster_queue("a-cq")).specs) == ["a-cq"]


def test_several_names_are_queues_below_that_of_the_cluster_queue() -> None:
    found = converted(
        cluster_queue("a-cq"),
        local_queue("x", "day", "a-cq"),
        local_queue("x", "night", "a-cq"),
        local_queue("y", "day", "a-cq"),
    )
    assert found.parents == {"a-cq": "", "day": "a-cq", "night": "a-cq"}
    assert [queue.origin for queue in found.conversion.queues] == [
        *("ClusterQueue a-cq", "LocalQueue x/day, y/day", "LocalQueue x/night")
    ]


def test_a_name_of_several_cluster_queues_names_none_of_them() -> None:
    found = converted(
        *(cluster_queue(name) for name in ("a", "b")),
        local_queue("x", "main", "a"),
        local_queue("y", "main", "b"),
    )
    assert list(found.specs) == ["a", "b"]
    assert said(found, AMBIGUOUS) == ["main"]


def test_names_of_queues_that_are_there_already_name_none_of_these() -> None:
    found = converted(
        cluster_queue("default"),
        cluster_queue("root", "root"),
        local_queue("x", "default", "default"),
        local_queue("x", "root", "root"),
    )
    assert found.parents == {
        "root-cohort": "",
        "default-clusterqueue": "",
        "root-clusterqueue": "root-cohort",
    }
    told = "LocalQueue: is the name of a queue that is there already"
    assert said(found, told) == ["default, root"]


def test_names_that_work_has_go_first() -> None:
    """The LocalQueue `b` of ClusterQueue `a`, ClusterQueue `b`, and a Cohort of that name."""
    found = converted(cluster_queue("a"), cluster_queue("b", "b"), local_queue("x", "b", "a"))
    assert found.parents == {"b-cohort": "", "b": "", "b-clusterqueue": "b-cohort"}
    assert 'Cohort: is queue "b-cohort" (b)' in found.warnings
    assert 'ClusterQueue: is queue "b-clusterqueue" (b)' in found.warnings


def test_one_name_with_several_stops_is_a_queue_for_each_that_has_one() -> None:
    found = converted(
        cluster_queue("a"),
        local_queue("x", "main", "a"),
        local_queue("y", "main", "a", stopPolicy="Hold"),
        local_queue("z", "main", "a"),
    )
    assert found.parents == {"a": "", "y-main": "a"}
    assert found.specs["y-main"]["stopPolicy"] == "Hold"
    assert "stopPolicy" not in found.specs["a"]
    assert said(found, AMBIGUOUS) == ["main"]


def test_a_name_that_is_too_long_with_its_suffix_is_cut() -> None:
    name = ".".join(["long"] * 50)
    found = converted(cluster_queue(name, name), local_queue("x", name, name))
    assert [len(each) <= 253 and valid_name(each) for each in found.specs] == [True, True]
    assert name in found.specs


_name = st.sampled_from(["a", "b", "root", "default", "a-clusterqueue", "x-a", "a-cohort"])
_stop = st.sampled_from(["None", "Hold"])


@examples(60)
@given(
    st.dictionaries(_name, st.sampled_from(["", "a", "b", "root", "a-clusterqueue"]), min_size=1),
    st.dictionaries(st.tuples(st.sampled_from(["x", "y"]), _name), st.tuples(_name, _stop)),
)
def test_each_object_is_one_queue_and_no_two_have_one_name(
    queues: dict[str, str], locals_: dict[tuple[str, str], tuple[str, str]]
) -> None:
    found = converted(
        *(cluster_queue(name, above) for name, above in queues.items()),
        *(
            local_queue(namespace, name, queue, stopPolicy=stop)
            for (namespace, name), (queue, stop) in locals_.items()
        ),
    )
    names = [queue.name for queue in found.conversion.queues]
    origins = [queue.origin for queue in found.conversion.queues]
    assert len(set(names)) == len(names)
    assert {*names} & {"root", "default"} == set()
    assert sum(origin.startswith("ClusterQueue ") for origin in origins) == len(queues)
    places = {name: place for place, name in enumerate(names)}
    assert all(not above or places[above] < places[name] for name, above in found.parents.items())


@examples(60)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["x", "y"]), st.sampled_from("abc")),
        st.tuples(st.sampled_from("qr"), _stop),
        min_size=1,
    )
)
def test_no_stop_of_a_local_queue_is_lost_nor_stops_others(
    locals_: dict[tuple[str, str], tuple[str, str]],
) -> None:
    """Each is in the one queue whose origin has it, which is stopped just as it was."""
    found = converted(
        *map(cluster_queue, "qr"),
        *(
            local_queue(namespace, name, queue, stopPolicy=stop)
            for (namespace, name), (queue, stop) in locals_.items()
        ),
    )
    origins = {queue.name: queue.origin.replace(",", "").split() for queue in found.conversion.queues}
    for (namespace, name), (_, stop) in locals_.items():
        [queue] = [each for each, words in origins.items() if f"{namespace}/{name}" in words]
        assert found.specs[queue].get("stopPolicy", "None") == stop
