"""Which proxy leads to a server, as Go's golang.org/x/net/http/httpproxy decides it.

Promises
- The kubeconfig's `proxy-url` goes before the environment.
- `localhost` and loopback addresses are never reached through a proxy of the environment.
- `NO_PROXY` holds hosts (and all below them), `.domains`, addresses, CIDR blocks, each with an
  optional port, or `*`. The upper-case variable goes before the lower-case one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy(server: str, *, configured: str, environ: Mapping[str, str]) -> str:
    """The URL of the proxy to use, or nothing."""
    if configured:
        return configured
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    found = _variable(environ, f"{parts.scheme.upper()}_PROXY")
    if not found or _loopback(host) or _excluded(host, port, _variable(environ, "NO_PROXY")):
        return ""
    return found if "://" in found else f"http://{found}"


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.lower()) or ""


def _loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return None


def _excluded(host: str, port: int, listed: str) -> bool:
    entries = (entry.strip().lower() for entry in listed.split(","))
    return any(_matches(entry, host.lower(), port) for entry in entries if entry)


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address, network = _address(host), _network(entry)
    if network is not None:
        return address is not None and address in network
    name, wanted = _split(entry)
    if wanted and wanted != str(port):
        return False
    name = name.strip("[]").removeprefix("*")
    if address is not None:
        return _address(name) == address
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split(entry: str) -> tuple[str, str]:
    """Host and port of an entry; an IPv6 address has its colons to itself unless in brackets."""
    if entry.startswith("["):
        name, _, rest = entry.partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""
