"""Writes a tree of `variants` as the text of a Helm template.

Strings that YAML could take for something else are quoted as in JSON. Braces in a manifest are another's
(Prometheus', Grafana's): Helm is made to print them as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

from release.chart.variants import Block, Branch, Choice, Field, Fields, HelmExpression, Items, TemplateNode

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*( [A-Za-z0-9/._-]+)*")
_BRACES = re.compile(r"\{\{|\}\}")
_OTHER_TYPES = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})
_Write = Callable[[TemplateNode, int], list[str]]


def document(tree: Choice, *, tokens: Mapping[str, str]) -> str:
    """One object. `tokens`: texts in strings of the manifests, and the Helm text that replaces each."""
    text = "\n".join(_Writer(tokens).branches(tree, 0)) + "\n"
    for token, replacement in tokens.items():
        text = text.replace(token, replacement)
    return text


def scalar(node: TemplateNode, *, quote: bool = False) -> str:
    """A scalar as YAML has it; `quote`: a string is quoted whatever it is."""
    if isinstance(node, HelmExpression):
        return f"{{{{ {node.text} }}}}"
    if isinstance(node, str):
        plain = _PLAIN.fullmatch(node) and node.lower() not in _OTHER_TYPES and not quote
        return node if plain else _BRACES.sub(_printed, json.dumps(node, ensure_ascii=False))
    return json.dumps(node)


def _printed(braces: re.Match[str]) -> str:
    """An expression that prints these braces."""
    return f"{{{{ `{braces[0]}` }}}}"


class _Writer:
    """A string that has a token in it is quoted: nobody knows what the text in its place is like."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._tokens = tuple(tokens)

    def branches(self, choice: Choice, indent: int, write: _Write | None = None) -> list[str]:
        write = write or self._lines
        if len(choice) == 1 and not choice[0].condition:
            return write(choice[0].node, indent)
        lines: list[str] = []
        for place, branch in enumerate(choice):
            lines.append(_opening(branch, first=place == 0))
            lines += write(branch.node, indent)
        return [*lines, "{{- end }}"]

    def _lines(self, node: TemplateNode, indent: int) -> list[str]:
        if isinstance(node, Fields) and node.fields:
            return [line for field in node.fields for line in self._field(field, indent)]
        if isinstance(node, Items) and node.items:
            return [line for item in node.items for line in self.branches(item, indent, self._item)]
        if isinstance(node, Block):
            return [f"{{{{- {node.text} | nindent {indent} }}}}"]
        return [" " * indent + self._inline(node)]

    def _field(self, field: Field, indent: int) -> list[str]:
        key = " " * indent + self._inline(field.key) + ":"

        def write(node: TemplateNode, indent: int) -> list[str]:
            if isinstance(node, Block) or (isinstance(node, Fields) and node.fields):
                return [key, *self._lines(node, indent + 2)]
            if isinstance(node, Items) and node.items:
                return [key, *self._lines(node, indent)]
            return [f"{key} {self._inline(node)}"]

        return self.branches(field.choice, indent, write)

    def _item(self, node: TemplateNode, indent: int) -> list[str]:
        if isinstance(node, Block):
            return self._lines(node, indent)
        lines = self._lines(node, indent + 2)
        if lines[0].startswith("{{-"):
            return [" " * indent + "-", *lines]
        return [" " * indent + "- " + lines[0].lstrip(), *lines[1:]]

    def _inline(self, node: TemplateNode) -> str:
        if isinstance(node, Fields):
            return "{}"
        if isinstance(node, Items):
            return "[]"
        quote = isinstance(node, str) and any(token in node for token in self._tokens)
        return scalar(node, quote=quote)


def _opening(branch: Branch, *, first: bool) -> str:
    if not branch.condition:
        return "{{- else }}"
    return f"{{{{- {'if' if first else 'else if'} {branch.condition} }}}}"
