"""A task of Ray, or an actor, that has no memory left in its second call."""

import sys

import numpy as np
import ray


def fill() -> None:
    """Keep arrays until there is no room."""
    from limit import leave_little

    leave_little()
    kept = []
    while True:
        kept.append(np.ones(2 << 20))


@ray.remote(max_retries=0)
def task(number):
    """Of the tasks one fails."""
    return fill() if number == 1 else number


@ray.remote
class Actor:
    """Of its calls one fails."""

    def work(self, number):
        """One call."""
        return fill() if number == 1 else number


ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20)
call = task.remote if sys.argv[1] == "task" else Actor.remote().work.remote
print(ray.get([call(number) for number in range(3)]))
