"""Objects as kubectl prints them: json, yaml, name, and by a template, which kubectl does itself.

`Reporter` prints with them what a verb did to each queue.

Promises
- Keys are sorted and `managedFields` left out. Several objects, and the result of a list, make a v1 List.
- A verb reports in words queue by queue, as things happen; documents, tables and templates come at the end
  and as one. Of a queue that stays as it is stderr says so, where the format has no place for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kubectl_queue.access import kubectl
from kubectl_queue.cli.options import DryRun, Output
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object
from kubectl_queue.output.tables import Table
from kubectl_queue.session import Session

RESOURCE = "queue.scheduling.volcano.sh"


#: The formats that are documents: no other words may stand between them.
DOCUMENTS = frozenset({Output.JSON, Output.YAML})

#: How kubectl begins where a template is wrong.
_BAD_TEMPLATE = re.compile(r"(error: )?(error (parsing|reading)|unable to match a printer|template: )")

_C1 = re.compile("[\x7f-\x9f]")


def typed_name(name: str) -> str:
    """A queue as kubectl names it in messages."""
    return f"{RESOURCE}/{name}"


def dump_objects(items: Sequence[Object], *, output: Output, as_list: bool) -> str:
    """The objects in json or yaml, without the last line end."""
    shown = [_shown(item) for item in items]
    return dump(_list(shown) if as_list else shown[0], output=output)


def by_template(
    items: Sequence[Object], template: str, *, environ: Mapping[str, str], complete: bool = True
) -> str:
    """The objects as kubectl prints them by a template, such as `jsonpath={.metadata.name}`.

    `kubectl patch --local` with an empty patch prints what it is given, and asks no server. Raises QueueError
    in kubectl's words; unless `complete`, only where the template itself is wrong, not what it finds.
    """
    words = ("patch", "--local", "--type=merge", "--patch={}", "--filename=-", f"--output={template}")
    given = "\n".join(map(json.dumps, items))
    done = kubectl.run(words, access=(), environ=environ, stdin=given)
    if done.returncode != 0 and (complete or _BAD_TEMPLATE.match(done.stderr)):
        raise QueueError(done.stderr.strip().removeprefix("error: "))
    return done.stdout


def check_template(template: str, *, environ: Mapping[str, str]) -> None:
    """Before anything is changed: raises QueueError where kubectl cannot read the template."""
    item = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "x"}}
    by_template([item], template, environ=environ, complete=False)


def dump(value: Object, *, output: Output) -> str:
    """Any structure in json or yaml."""
    return _json(value) if output is Output.JSON else _yaml(value)


def _list(items: Sequence[Object]) -> Object:
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}


def _shown(item: Object) -> Object:
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}


def _json(value: Object) -> str:
    text = json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False)
    return _C1.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _yaml(dump_objects: Object) -> str:
    import yaml  # noqa: PLC0415 - 30 ms that only -o yaml needs

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # either, as there is
        """Quotes as sigs.k8s.io/yaml does: only what would be read as something else, and double."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        plain = dumper.resolve(yaml.ScalarNode, value, (True, False)) == "tag:yaml.org,2002:str"
        style = "|" if "\n" in value else None if plain else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    dumped = yaml.dump(
        dump_objects,
        Dumper=Dumper,
        sort_keys=True,
        default_flow_style=False,
        allow_unicode=True,
        width=1 << 30,
    )
    return str(dumped).rstrip("\n")


_SUFFIX = {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}


class Reporter:
    """Prints what one command did. Raises QueueError at once where a template of -o cannot be read."""

    def __init__(self, session: Session, *, dry_run: DryRun = DryRun.NONE) -> None:
        self._session = session
        self._suffix = _SUFFIX[dry_run]
        self._items: dict[str, Object] = {}
        if session.template:
            check_template(session.template, environ=session.environ)

    def say(self, name: str, text: str) -> None:
        """Report the outcome `text` for a queue."""
        line = f"{typed_name(name)} {text}{self._suffix}"
        if self._session.output is None:
            self._session.console.say(line)
        elif text.startswith("unchanged"):
            self._session.console.note(line)

    def keep(self, item: Object) -> None:
        """The item to print at the end, in the place of an earlier one of its name."""
        self._items[item["metadata"]["name"]] = item

    def deleted(self, name: str) -> None:
        shown = (
            typed_name(name)
            if self._session.output is Output.NAME
            else f'{RESOURCE} "{name}" deleted{self._suffix}'
        )
        self._session.console.say(shown)

    def finish(self) -> None:
        """Print what was kept until the end."""
        output = self._session.output
        items = list(self._items.values())
        if output is None or not items:
            return
        if output is Output.TEMPLATE:
            session = self._session
            session.console.write(by_template(items, session.template, environ=session.environ))
            return
        if output in DOCUMENTS:
            text = dump_objects(items, output=output, as_list=len(items) > 1)
        elif output is Output.NAME:
            text = "\n".join(typed_name(item["metadata"]["name"]) for item in items)
        else:
            table = Table(wide=output is Output.WIDE)
            text = "\n".join(table.lines(items, now=self._session.api.now))
        self._session.console.say(text)
