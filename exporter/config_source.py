"""What the settings of every store have in common, whatever kind of place it is."""

import re
from datetime import tzinfo
from typing import Annotated, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from orphanwatch.exporter.config_values import PositiveDuration, Strict
from orphanwatch.exporter.ids import IdRule, check_pattern
from orphanwatch.exporter.instants import micros


class Source(Strict):
    """How long a store may take, the zone of its bare stamps, and how it spells task ids."""

    preset: str | None = None
    """The system whose ways were filled in; what the user writes goes before them."""
    timezone: str = "UTC"
    timeout: PositiveDuration = micros(5)
    strip_prefix: str = ""
    strip_suffix: str = ""
    uuid: bool = False

    @field_validator("timezone")
    @classmethod
    def _zone_is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(
                "is no known time zone; write for example UTC or Europe/Berlin"
            ) from error
        return name

    @field_validator("strip_prefix", "strip_suffix")
    @classmethod
    def _is_a_pattern(cls, pattern: str) -> str:
        try:
            check_pattern(pattern)
        except re.error:
            raise ValueError(
                "is no regular expression; write for example chatcmpl- or -[0-9a-f]{8}, and flags "
                "as in (?i:...)"
            ) from None
        return pattern

    @property
    def zone(self) -> tzinfo:
        """The zone of stamps that carry none."""
        return ZoneInfo(self.timezone)

    @property
    def id_rule(self) -> IdRule:
        """What is taken off task ids."""
        return IdRule(self.strip_prefix, self.strip_suffix, self.uuid)


def _read_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ValueError("is no HTTP address; write for example http://127.0.0.1:8000/metrics")
    if "@" in parts.netloc:
        raise ValueError("holds credentials; write them as username and password_file")
    return text


HttpUrl = Annotated[str, AfterValidator(_read_url)]
"""An address that starts with ``http://`` or ``https://`` and holds no credentials."""


class HttpAccess(Strict):
    """How a server is asked over HTTP: with which credentials, and whose word is trusted."""

    username: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    """A bearer token."""
    headers: dict[str, SecretStr] = Field(default={})
    ca_file: str | None = None
    """Certificates that sign the server's; None is the system's."""
    cert_file: str | None = None
    """Our own certificate, for a server that asks for one; ``key_file`` may be within it."""
    key_file: str | None = None
    insecure_skip_verify: bool = False

    @model_validator(mode="after")
    def _credentials_agree(self) -> Self:
        names = {name.lower() for name in self.headers}
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together; write both, or neither")
        ways = [self.username is not None, self.token is not None, "authorization" in names]
        if sum(ways) > 1:
            raise ValueError(
                "username, token and the header Authorization exclude each other; keep one of them"
            )
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file is of no use without its cert_file; add it")
        if self.insecure_skip_verify and self.ca_file is not None:
            raise ValueError("insecure_skip_verify makes ca_file pointless; keep ca_file")
        return self

    @property
    def has_credentials(self) -> bool:
        """Return whether any are sent: those that a server may refuse."""
        return bool(self.username is not None or self.token is not None or self.headers)
