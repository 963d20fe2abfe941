"""Listen addresses: ``host:port``, IPv6 in brackets, as the Prometheus family writes them."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from orphanwatch.exporter.errors import ConfigError

LISTEN_FLAG: Final = "--web.listen-address"
OPEN_FLAG: Final = "--web.allow-unauthenticated"
DEFAULT_LISTEN: Final = "127.0.0.1:9787"

_FORM: Final = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})")
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return ``host:port``, an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it; a name other than localhost is not trusted."""
        try:
            return ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(text: str) -> Address:
    """Return the address; an empty host is every IPv4 interface. Raises ``ConfigError``."""
    match = _FORM.fullmatch(text)
    if match is None or int(match["port"]) > _LAST_PORT:
        raise ConfigError(
            LISTEN_FLAG, (f"{text!r} is no address; write {DEFAULT_LISTEN} or [::1]:9787",)
        )
    return Address(match["six"] or match["host"] or "0.0.0.0", int(match["port"]))  # noqa: S104  (check_bind guards it)
