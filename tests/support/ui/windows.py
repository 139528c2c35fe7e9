"""The command `kubectl queue ui` as it runs, and windows of a browser that show its page.

A window keeps what it should never see: errors of scripts, refused by the content security policy or not, and
requests to anywhere else.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.plugin.harness import started_plugin

#: Milliseconds: long, for machines that are busy; what comes true is not longer for it.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)


class Window:
    """One window. `page`: Playwright's."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin
        #: What the console said, and errors of scripts.
        self.said: list[str] = []
        #: Addresses of other places that were asked.
        self.elsewhere: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", self._note)

    def _note(self, request: Any) -> None:
        if not request.url.startswith(self.origin + "/"):
            self.elsewhere.append(request.url)

    def row(self, queue: str) -> Locator:
        return self.page.locator(f'#tree tbody tr[data-name="{queue}"]')

    def cells(self, queue: str) -> list[str]:
        return self.row(queue).locator("th, td").all_inner_texts()

    def expect_state(self, queue: str, state: str) -> None:
        expect(self.row(queue).locator("td").first).to_contain_text(state)

    def go(self, path: str) -> None:
        """By the page's own links: an address that is loaded anew would do as well."""
        self.page.goto(self.origin + path)


class Ui:
    """The command. `window` opens the page by the address that it printed last."""

    def __init__(
        self,
        chromium: Browser,
        *words: str,
        kubeconfig: Path,
        environ: Mapping[str, str] | None = None,
        browser: bool = False,
    ) -> None:
        """`browser`: whether the command starts one."""
        self._browser = chromium
        command = ("ui", *words) if browser else ("ui", "--no-browser", *words)
        self.process = started_plugin(*command, kubeconfig=kubeconfig, environ=environ)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address, self.process.stderr.read()
        self.origin = self.address.partition("/#")[0]
        self.process.stderr.readline()
        self.windows: list[Window] = []

    def window(self, *, beside: Window | None = None, is_refused: bool = False, **options: Any) -> Window:
        """A window of a browser that has seen nothing before, or of the same profile as one `beside` it.

        `is_refused`: it shows no queues. `options`: such as its size and colours.
        """
        context = beside.page.context if beside is not None else self._browser.new_context(**options)
        window = Window(context.new_page(), self.origin)
        self.windows.append(window)
        window.page.goto(self.address)
        self.address = self._next_address()
        if not is_refused:
            expect(window.page.locator("#tree tbody tr").first).to_be_visible()
        return window

    def bare_window(self, address: str, **options: Any) -> Window:
        """One that nobody waits for."""
        window = Window(self._browser.new_context(**options).new_page(), self.origin)
        self.windows.append(window)
        window.page.goto(address)
        return window

    def _next_address(self) -> str:
        assert self.process.stderr is not None
        found = re.search(r"http://\S+", self.process.stderr.readline())
        assert found is not None
        return found[0]

    def interrupt(self) -> int:
        """As Ctrl-C does; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE / 1000)

    def close(self) -> None:
        for window in self.windows:
            window.page.context.close()
        self.process.kill()
        self.process.communicate()
