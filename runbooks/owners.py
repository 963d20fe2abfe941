"""Whom a page names: the owners of the pools, and whom to tell where none is set."""

from collections.abc import Iterable
from typing import Final

from orphanwatch.exporter.config import Config, Pool
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.names import Role
from orphanwatch.runbooks.markdown import cell, plain

# Who reads the page is on call already: "call on-call" would send them to themselves.
_READER: Final = str(Pool.model_fields["owner"].default)


def card(config: Config) -> str:
    """Return the owner of each pool, for a table cell."""
    pools = sorted(config.pools)
    owners = ", ".join(owner_of(config, pool) for pool in pools)
    return owners if _named(config, pools) else "you, who are on call: the config names no owner"


def owner_of(config: Config, pool: str) -> str:
    """Return one pool's owner with the pool's name.

    Raises ``RenderError`` where the owner is blank.
    """
    owner = plain(config.pools[pool].owner)
    if not owner:
        raise RenderError(f"pools.{pool}.owner is blank; name who owns the pool, or leave it out")
    if owner == plain(_READER):
        return f"you, who are on call ({cell(pool)})"
    return f"{owner} ({cell(pool)})"


def call(config: Config) -> str:
    """Return whom the reader calls when nothing helps."""
    return _named(config, config.pools) or "the next person on your escalation list"


def tell(config: Config) -> str:
    """Return whom the reader tells that batch work has to wait."""
    return _named(config, config.overflow_pools) or "whoever sends batch work"


def owners_by_role(config: Config, role: Role) -> str:
    """Return the owners of all pools of one role."""
    pools = [name for name, pool in sorted(config.pools.items()) if pool.role is role]
    return ", ".join(owner_of(config, pool) for pool in pools) or (
        "nobody: no such pool is configured"
    )


def _named(config: Config, pools: Iterable[str]) -> str:
    owners = {plain(config.pools[pool].owner) for pool in pools} - {plain(_READER)}
    return ", ".join(sorted(owners))
