"""The host's figures that the report shows in a table, by what bounds them."""

from __future__ import annotations

from ..language import N_

GROUPS = (
    (
        N_("Machine"),
        (
            "host.platform", "host.total_bytes", "host.available_bytes", "host.used_ratio", "host.system_oom_kills",
            "host.shm_total_bytes",
        ),
    ),
    (
        N_("Container or cgroup"),
        ("host.cgroup_limit_bytes", "host.cgroup_used_bytes", "host.cgroup_oom_kills", "host.job_limit_bytes"),
    ),
    (
        N_("The command"),
        (
            "host.peak_tree_bytes", "host.peak_virtual_bytes", "host.process_limit_bytes", "host.failing_process_bytes",
            "host.growth_bytes", "host.growth_bytes_per_second", "host.largest_holder", "host.largest_holder_size",
        ),
    ),
    (N_("Memory pressure (PSI)"), ("host.pressure_full_ratio",)),
)  # fmt: skip


def measure_anchor(fact: str) -> str:
    """The anchor of a figure's row: names of facts are ours."""
    return "measure-" + fact.replace(".", "-").replace("_", "-")
