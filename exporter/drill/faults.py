"""The hops that a cancel takes, and the five ways in which a drill breaks one of them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Mode(StrEnum):
    """Whether cancels are to arrive."""

    SHED = "shed"
    ORPHAN = "orphan"


class Hop(StrEnum):
    """Where a cancel, or the sight of it, can get lost."""

    CANCEL_CHANNEL = "cancel_channel"
    HEARTBEAT = "heartbeat"
    RETRY = "retry"
    LEDGER = "ledger"
    WORKER = "worker"


class Fault(StrEnum):
    """One broken hop. One at a time: together they would hide each other."""

    DROP_CANCEL = "drop-cancel"
    SLOW_HEARTBEAT = "slow-heartbeat"
    LOST_RETRY_ID = "lost-retry-id"
    MISKEYED_LEDGER = "miskeyed-ledger"
    SECOND_DECODER = "second-decoder"


HOPS: Final[Mapping[Fault, Hop]] = {
    Fault.DROP_CANCEL: Hop.CANCEL_CHANNEL,
    Fault.SLOW_HEARTBEAT: Hop.HEARTBEAT,
    Fault.LOST_RETRY_ID: Hop.RETRY,
    Fault.MISKEYED_LEDGER: Hop.LEDGER,
    Fault.SECOND_DECODER: Hop.WORKER,
}
"""Which hop a fault breaks."""

HOP_WORDS: Final[Mapping[Hop, str]] = {
    Hop.CANCEL_CHANNEL: "gateway to overflow worker: the cancel itself",
    Hop.HEARTBEAT: "overflow worker's heartbeat: when it hears of a cancel",
    Hop.RETRY: "client's retry to gateway: the retry id",
    Hop.LEDGER: "worker to ledger: the key that tokens are charged under",
    Hop.WORKER: "worker to worker: one request, one decoder",
}
"""What runs over a hop, for people."""
