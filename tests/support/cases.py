"""Many small cases as one test: what pytest does beside each test takes longer than such a case.

`each_case` is written as `pytest.mark.parametrize` is. Every case is tried, and each that fails is shown, by
its name. It is for functions of values: what a case leaves behind is there for the next one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]
#: As for `pytest.mark.parametrize`: a name for each case, or what names a value.
Ids = Iterable[object] | Callable[[Any], object] | None


def each_case(names: str | Sequence[str], rows: Iterable[object], ids: Ids = None) -> Callable[[Test], Test]:
    """Have the test try all rows, one after another; over another `each_case`, every two together."""
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    single = isinstance(names, str) and len(arguments) == 1
    given = [_values(row, single=single) for row in rows]
    assert given, f"no case of {arguments}"
    told = ids if ids is None or callable(ids) else [str(each) for each in ids]
    named = [_name(number, row, told) for number, row in enumerate(given)]

    def decorated(test: Test) -> Test:
        @wraps(test)
        def all_cases(**others: Any) -> None:
            failures: list[BaseException] = []
            for name, values in zip(named, given, strict=True):
                try:
                    test(**others, **dict(zip(arguments, values, strict=True)))
                except (Exception, pytest.fail.Exception) as exc:  # the latter of `pytest.raises`
                    exc.add_note(f"case: {name}")
                    failures.append(exc)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(given)} cases fail", failures)

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in arguments]
        assert len(left) == len(signature.parameters) - len(arguments), f"not all of {arguments} are taken"
        all_cases.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        del all_cases.__wrapped__  # pytest would look for fixtures of these names
        return all_cases

    return decorated


def _values(row: Any, *, single: bool) -> tuple[Any, ...]:
    if hasattr(row, "marks") and hasattr(row, "values") and hasattr(row, "id"):  # of `pytest.param`
        assert not row.marks, "marks are for tests of their own"
        return _Named(row.values, row.id)
    return (row,) if single else tuple(row)


class _Named(tuple[Any, ...]):
    """Values with a name of their own."""

    name: str | None

    def __new__(cls, values: Iterable[Any], name: str | None) -> _Named:
        made = super().__new__(cls, values)
        made.name = name
        return made


def _name(number: int, values: tuple[Any, ...], ids: Callable[[Any], object] | list[str] | None) -> str:
    if isinstance(values, _Named) and values.name:
        return values.name
    if isinstance(ids, list):
        return ids[number]
    told = (ids(value) if ids else value for value in values)
    return "-".join(str(each) if isinstance(each, str) else repr(each) for each in told)


def with_new(**makers: Callable[[], object]) -> Callable[[Test], Test]:
    """Give the test what these make; beneath `each_case`, anew for each case."""

    def decorated(test: Test) -> Test:
        @wraps(test)
        def one_case(**others: Any) -> None:
            test(**others, **{name: make() for name, make in makers.items()})

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in makers]
        assert len(left) == len(signature.parameters) - len(makers), f"not all of {[*makers]} are taken"
        one_case.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        del one_case.__wrapped__
        return one_case

    return decorated
