"""The fail-closed conditions at their very thresholds, which are computed and still exact."""

from pathlib import Path

import pytest
from stack_file import StackFile, lease, read, task


@pytest.mark.parametrize(
    ("budget", "age", "heartbeat", "slower", "slow"),
    [
        pytest.param(1.4, 0.4, 0.1, 0, 0, id="a grace of 1 s is no more than 1.4 s less 0.4 s"),
        pytest.param(1.4, 0.41, 0.1, 1, 0, id="but more than what 10 ms more of waiting leave"),
        pytest.param(39.3, 0, 14.41, 0, 0, id="14.41 s are 1.1 thirds of 39.3 s"),
        pytest.param(39.3, 0, 14.42, 0, 1, id="and 14.42 s are more"),
    ],
)
def test_a_number_at_its_threshold_is_not_above_it(
    tmp_path: Path, *, budget: float, age: float, heartbeat: float, slower: float, slow: float
) -> None:
    """Floating point says that 1.4 less 0.4 is below 1."""
    stack = StackFile(tmp_path, stores={"leases": {"heartbeat": f"{heartbeat}s"}})
    stack.add("tasks", *(task(f"t{number}", deadline_at=budget) for number in range(5)))
    stack.add("leases", lease("t0", released_at=0.1))
    stack.add("queue", {"sampled_at": 1, "depth": 1, "age_seconds": age})
    document = stack.document(1)
    assert read(document, "orphan_fail_closed condition=cancel_slower_than_slack") == slower
    assert read(document, "orphan_fail_closed condition=heartbeat_too_slow") == slow
