"""The matrix of docs/trust.md: what is compared between a command run bare and under `oomdoctor run`, and where.

`python tests/trust/matrix.py` writes its table into docs/trust.md; `test_matrix.py` holds the two together.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "trust.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of the matrix -->\n"


@dataclass(frozen=True)
class Item:
    """One line: a thing that a command or its caller could notice, and the tests that hold it."""

    what: str
    compared: str
    tests: tuple[str, ...]
    """`<file below tests, without .py>::<function>`."""


_SAME = "status, standard output and error"
_INSIDE = ("trust/test_commands::test_inside_one_shell", "trust/test_commands::test_more_inside_one_shell")


GROUPS: dict[str, tuple[Item, ...]] = {
    "The end": (
        Item(
            "exit statuses 0–255",
            "status",
            ("trust/test_ends::test_every_exit_status_is_taken_over", "run/test_transparency::test_exit_status"),
        ),
        Item("the same, each in a run of its own", "status", ("trust/test_ends::test_every_exit_status_for_real",)),
        Item(
            "death by each signal that kills",
            "signal",
            (
                "trust/test_ends::test_death_by_every_signal_is_taken_over",
                "run/test_transparency::test_death_by_signal",
            ),
        ),
        Item("the same, each in a run of its own", "signal", ("trust/test_ends::test_death_by_every_signal_for_real",)),
        Item(
            "137 in a shell",
            "$?",
            ("run/test_transparency::test_death_by_signal_in_a_shell_is_128_plus_number",),
        ),
        Item("core dumps of the wrapper", "no file", ("run/test_transparency::test_no_core_of_the_wrapper",)),
        Item(
            "a command that is not there, cannot be started, or has no first line",
            "126, 127, or run by sh",
            (
                "run/test_transparency::test_what_cannot_be_started_ends_as_in_a_shell",
                "run/test_transparency::test_a_script_without_a_first_line_is_run_by_sh",
                "trust/test_ends::test_a_missing_interpreter_is_named",
            ),
        ),
        Item(
            "a signal while the report is made",
            "status of the command",
            ("trust/test_ends::test_signals_while_the_report_is_made_change_nothing",),
        ),
        Item(
            "^C at any moment of the start",
            "SIGINT; nothing is left",
            (
                "trust/test_ends::test_an_interrupt_before_the_command_starts_ends_by_it",
                "trust/test_ends::test_an_interrupt_at_any_moment_of_the_start_ends_by_it",
            ),
        ),
    ),
    "Signals": (
        Item(
            "TERM, INT, HUP, USR1, USR2, TSTP, CONT, WINCH, QUIT, ALRM, RTMIN to the wrapper",
            "each arrives once",
            ("run/test_signals::test_sent_to_the_wrapper_each_arrives_once",),
        ),
        Item("the same to the process group", "once", ("run/test_signals::test_sent_to_the_group_each_arrives_once",)),
        Item(
            "many of the same, to the group, the wrapper and in turn, while a disk holds up the copy of the output",
            "each once",
            ("run/test_signals::test_each_arrives_once_while_the_copy_of_the_output_is_held_up",),
        ),
        Item(
            "TERM, INT, USR1 and ^Z before the command has its program",
            "signal; both stop",
            (
                "run/test_spawn::test_a_signal_during_the_start_ends_the_command",
                "run/test_spawn::test_a_stop_during_the_start_stops_both",
            ),
        ),
        Item(
            "a signal that ends the command",
            "signal of the wrapper",
            ("run/test_signals::test_the_wrapper_ends_by_the_signal_that_ended_the_command",),
        ),
        Item(
            "SIGKILL to the process group",
            "the command dies too",
            ("run/test_transparency::test_a_killed_group_takes_the_command_along",),
        ),
        Item(
            "a command that ends in order on a signal",
            "status",
            ("run/test_signals::test_a_graceful_end_on_a_signal_is_waited_for",),
        ),
        Item("stop and continue", "states", ("run/test_signals::test_stop_and_continue",)),
        Item(
            "the command alone is stopped, then continued or killed",
            "status; the wrapper does not stay stopped",
            ("run/test_signals::test_a_command_that_alone_is_stopped_and_goes_on_or_is_killed_is_waited_for",),
        ),
        Item(
            "signal mask, ignored and caught signals",
            "/proc/self/status",
            (
                "run/test_transparency::test_signal_mask_and_dispositions_are_the_callers",
                "trust/test_process::test_unusual_inheritance",
            ),
        ),
        Item(
            "a wrapper stopped for seconds, and continued",
            "signals, status, output",
            ("trust/test_our_trouble::test_a_wrapper_that_was_stopped_for_long_goes_on",),
        ),
        Item(
            "an inherited 'ignore' of SIGCHLD",
            "disposition, status, errors",
            ("trust/test_process::test_an_ignored_end_of_children_stays_ignored",),
        ),
    ),
    "Terminal": (
        Item(
            "isatty, size, encoding, buffering, terminal modes",
            "what the process sees",
            (
                "trust/test_terminal_sessions::test_a_session_looks_the_same",
                "run/test_terminal::test_all_three_are_terminals_of_the_same_size",
            ),
        ),
        Item("size after a resize", "size", ("run/test_terminal::test_keyboard_input_arrives_and_a_resize_is_seen",)),
        Item(
            "^C, ^Z and fg, ^\\, ^D, hang-up",
            "screen, status",
            (
                "run/test_terminal::test_control_c_arrives_once",
                "run/test_terminal::test_control_c_ends_the_command_and_the_wrapper_by_sigint",
                "run/test_terminal::test_control_z_and_fg_in_a_shell",
                "run/test_terminal::test_hang_up_reaches_the_command",
                "trust/test_terminal_sessions::test_the_screen_is_the_same",
            ),
        ),
        Item(
            "bg, then fg, from an interactive shell",
            "jobs, output",
            ("trust/test_terminal_sessions::test_background_and_foreground",),
        ),
        Item(
            "readline, pdb, input, getpass, read -s, stty, colours, progress bars, `python -i`, REPLs 3.8–3.12, "
            "`script`, a command that is killed with the terminal's modes changed",
            "the whole screen",
            (
                "trust/test_terminal_sessions::test_a_session_looks_the_same",
                "trust/test_terminal_sessions::test_the_screen_is_the_same",
            ),
        ),
        Item(
            "curses, which sets the mode through stdout",
            "keys arrive unbuffered, the mode is put back",
            ("trust/test_terminal_sessions::test_full_screen_programs",),
        ),
        Item(
            "the same, when the relay is killed meanwhile",
            "the mode is put back",
            ("run/test_terminal::test_the_terminal_is_given_back_when_the_relay_was_killed",),
        ),
        Item("vim, where installed", "what it writes", ("trust/test_terminal_sessions::test_an_editor",)),
        Item(
            "less, of a file, at the end of a pipe, started by a program, stopped and continued",
            "the screen, the keys, status",
            (
                "trust/test_terminal_sessions::test_a_pager",
                "trust/test_terminal_sessions::test_a_pager_that_is_stopped_goes_on",
            ),
        ),
        Item(
            "more, of a file and at the end of a pipe",
            "the screen, the keys, status",
            ("trust/test_terminal_sessions::test_more",),
        ),
        Item(
            "keys typed while a full-screen program is busy",
            "they are its own",
            ("trust/test_terminal_sessions::test_keys_typed_while_a_program_is_busy_are_its_own",),
        ),
        Item(
            "an interactive shell as the command: ^Z, jobs, fg, ^C, background jobs",
            "the whole screen",
            (
                "trust/test_terminal_sessions::test_a_shell_inside_has_job_control",
                "trust/test_terminal_sessions::test_which_shells_have_the_terminal_itself",
            ),
        ),
        Item(
            "--keep-output 0",
            "the very terminal, of which the command is the foreground",
            ("trust/test_terminal_sessions::test_a_command_may_have_the_streams_themselves",),
        ),
        Item(
            "one stream a terminal, the other a file",
            "isatty",
            ("run/test_terminal::test_one_redirected_the_other_a_terminal",),
        ),
    ),
    "Streams": (
        Item(
            "stdin from a pipe and a file; what is left unread",
            "bytes",
            ("run/test_transparency::test_input_from_a_pipe_and_from_a_file",),
        ),
        Item("closed streams", "closed", ("run/test_transparency::test_closed_streams_stay_closed",)),
        Item(
            "stdout and stderr kept apart", "bytes", ("run/test_transparency::test_streams_are_kept_apart_and_whole",)
        ),
        Item("2>&1", "order", ("run/test_transparency::test_streams_that_share_one_place_keep_their_order",)),
        Item(
            "two commands that write into one pipe",
            "no line is torn",
            ("trust/test_streams::test_lines_of_two_commands_in_one_pipe_stay_whole",),
        ),
        Item(
            "a reader that goes away, a producer whose reader goes away",
            "SIGPIPE",
            (
                "run/test_transparency::test_a_reader_that_goes_away_ends_the_command_as_without",
                "run/test_transparency::test_a_producer_sees_that_the_command_closed_its_input",
            ),
        ),
        Item(
            "a grandchild that keeps the pipe open",
            "delays nothing, lives, is read",
            (
                "run/test_transparency::test_a_grandchild_that_keeps_the_pipe_delays_nothing_and_lives",
                "run/test_transparency::test_output_through_a_pipe_ends_when_the_last_writer_ends",
            ),
        ),
    ),
    "Process": (
        Item(
            "descriptors, cwd, umask, limits, nice, scheduler, affinity, OOM score, user and groups, process group and "
            "session, control groups, namespaces, capabilities, arguments, imported modules",
            "what the process sees",
            ("trust/test_process::test_a_process_sees_the_same", "trust/test_process::test_unusual_inheritance"),
        ),
        Item(
            "the process group of a caller that has its own",
            "number",
            ("run/test_transparency::test_the_process_group_is_the_callers",),
        ),
        Item(
            "inherited descriptors",
            "usable; the wrapper lets go",
            ("run/test_transparency::test_inherited_descriptors_reach_the_command_and_leave_the_wrapper",),
        ),
        Item(
            "environment",
            "the same but for PYTHONPATH and OOMDOCTOR_…",
            (
                "run/test_transparency::test_the_environment_changes_by_what_the_probe_needs",
                "trust/test_process::test_a_process_sees_the_same",
                "trust/test_process::test_words_that_are_not_utf_8",
            ),
        ),
        Item(
            "PYTHONWARNINGS=error, PYTHONDEVMODE, PYTHONINSPECT, PYTHONOPTIMIZE, PYTHONIOENCODING, PYTHONPATH with a "
            "module named as one of ours, …",
            _SAME,
            (
                "trust/test_process::test_variables_of_python_are_the_commands_affair",
                "trust/test_process::test_more_variables_of_python_are_the_commands_affair",
                "trust/test_process::test_modules_on_the_commands_path_are_not_ours",
            ),
        ),
        Item(
            "a folder that is gone", _SAME, ("run/test_transparency::test_a_python_started_in_a_folder_that_is_gone",)
        ),
        Item(
            "zombies, daemons, orphans",
            "processes left",
            (
                "trust/test_children::test_no_process_is_left",
                "trust/test_children::test_a_daemon_lives_on",
                "trust/test_children::test_the_first_process_of_a_container_reaps_orphans",
            ),
        ),
    ),
    "Commands": (
        Item(
            "`python script`, `-m`, `-c`, `-`, `-i`, `-I`, `-S`, `-E`, `-B -u -O`, a zip; another venv, a prefix as "
            "conda makes it, Python 2.7 and 3.6–3.13; shell scripts, traps, xargs, exec; nohup, timeout, env -i, nice, "
            "setsid inside; multiprocessing fork, spawn, forkserver, concurrent.futures, subprocess",
            _SAME,
            _INSIDE,
        ),
        Item(
            "nohup, timeout, env -i, nice, setsid, stdbuf around the wrapper",
            _SAME,
            (
                "trust/test_commands::test_around_the_wrapper",
                "run/test_signals::test_timeout_of_coreutils_works_through_the_wrapper",
            ),
        ),
        Item(
            "torchrun, 2 ranks, gloo",
            "status, output of the ranks",
            ("trust/test_commands::test_torchrun_with_two_ranks",),
        ),
        Item(
            "ranks of a launcher, a server that forks its workers, 64 workers that write at once; torchrun, "
            "accelerate, Lightning, transformers, Ray, nbconvert, gunicorn where installed",
            "status; one report, which names who failed first; records of each; processes left",
            (
                "trust/test_launchers::test_ranks_of_a_launcher",
                "trust/test_launchers::test_a_server_that_forks_its_workers",
                "trust/test_launchers::test_sixty_four_workers_that_write_at_once",
                "trust/test_launchers::test_real_launchers",
            ),
        ),
        Item(
            "a script that catches MemoryError or torch's error",
            "goes on; the failure is recorded",
            (
                "trust/test_caught::test_a_caught_memory_error_is_recorded_and_the_script_goes_on",
                "trust/test_caught::test_one_that_nothing_catches_has_one_record",
                "trust/test_caught::test_a_program_that_raises_very_many_errors_is_not_held_up",
                "device/test_census_device::test_without_observers_caught_failures_are_counted",
            ),
        ),
    ),
    "Evidence": (
        Item(
            "a fault of oomdoctor's own while the command runs",
            "status, output, signals",
            ("trust/test_our_trouble::test_a_fault_of_ours_changes_nothing_for_the_command",),
        ),
        Item(
            "SIGKILL of the command, the supervisor, both, at random instants",
            "what was recorded reads back; analyze works; the command is not harmed",
            (
                "trust/test_kills::test_kills_at_a_few_instants",
                "trust/test_kills::test_kills_at_two_hundred_instants",
                "run/test_evidence::test_a_killed_supervisor_leaves_a_readable_bundle_and_an_unharmed_command",
            ),
        ),
        Item(
            "a supervisor that had only opened its records",
            "read in part",
            ("trust/test_kills::test_a_supervisor_that_had_only_opened_its_records",),
        ),
        Item(
            "a supervisor that died",
            "analyze says so",
            ("trust/test_kills::test_analyze_says_that_the_supervisor_died",),
        ),
        Item(
            "a disk that fills up",
            "status, output; what was recorded reads back",
            (
                "run/test_evidence::test_a_full_disk_does_not_harm_the_command",
                "trust/test_failing_places::test_a_disk_that_fills_up_keeps_what_was_recorded",
                "probe/test_probe_start::test_a_full_disk_harms_nothing",
            ),
        ),
        Item(
            "an output folder that cannot be written, or becomes read-only",
            "status, output",
            (
                "run/test_evidence::test_a_folder_that_cannot_be_written_does_not_stop_the_command",
                "trust/test_failing_places::test_a_folder_that_becomes_read_only",
                "probe/test_probe_start::test_a_bundle_that_refuses_every_write_harms_nothing",
            ),
        ),
        Item(
            "an output folder that is removed",
            "status, output",
            (
                "run/test_evidence::test_a_folder_removed_while_running_does_not_harm_the_command",
                "probe/test_probe_start::test_a_missing_bundle_harms_nothing",
            ),
        ),
        Item("a clock that jumps", "analyze", ("trust/test_failing_places::test_a_clock_that_jumps",)),
        Item(
            "a bundle copied while it is written",
            "analyze",
            ("trust/test_failing_places::test_a_bundle_copied_at_any_moment",),
        ),
        Item(
            "files cut off anywhere",
            "up to the last whole record",
            (
                "bundle/test_records::test_a_file_cut_off_anywhere_reads_up_to_there",
                "trust/test_failing_places::test_a_bundle_cut_off_anywhere_is_analyzed",
            ),
        ),
        Item(
            "no memory left",
            "the reserve first, then a small record, then the rest",
            (
                "probe/test_probe_memory_errors::test_the_smallest_allocation_fails",
                "probe/test_probe_room::test_the_reserve_is_enough_for_the_record",
            ),
        ),
        Item(
            "a device fails while the host is nearly full (RLIMIT_AS; control groups of version 1 and 2 as fixtures)",
            "a snapshot or census is taken only where there is room",
            (
                "probe/test_probe_room::test_snapshot_and_census_follow_if_there_is_room",
                "probe/test_probe_room::test_what_a_group_leaves_is_less_its_cached_files",
                "probe/test_probe_room::test_snapshot_and_census_follow_if_a_real_group_has_room",
                "probe/test_probe_room::test_the_reserve_goes_first_and_the_fixed_record_next",
            ),
        ),
        Item(
            "a run of a day",
            "number of samples kept, the highest among them",
            (
                "collect/test_sampler::test_a_day_in_which_every_sample_moves_leaves_megabytes_and_the_highest",
                "probe/test_probe_torch::test_a_day_of_samples_is_thinned_and_its_peaks_are_kept",
            ),
        ),
        Item(
            "a control group that kills both",
            "a readable bundle",
            ("trust/test_failing_places::test_a_group_that_kills_both_leaves_a_readable_bundle",),
        ),
    ),
    "Devices and their numbers": (
        Item(
            "a driver (a libnvidia-ml.so.1 made for it) that hangs, crashes or ends the process, at its start, at a "
            "question or during the run; of another version, not loaded, with no card, with errors, with numbers that "
            "cannot be",
            "status, output; what was not seen is said; no process is left; check and sweep go on",
            (
                "trust/test_driver::test_a_run_says_what_is_wrong_and_ends_in_order",
                "trust/test_driver::test_a_driver_that_falls_silent_during_the_run",
                "trust/test_driver::test_figures_that_cannot_be_are_no_figures",
                "trust/test_driver::test_a_hanging_driver_leaves_no_process",
                "trust/test_driver::test_a_check_says_what_is_wrong",
                "trust/test_driver::test_a_sweep_is_not_held_up",
                "trust/test_driver::test_a_driver_that_hangs_is_waited_for_once",
            ),
        ),
        Item(
            "UUIDs, CUDA_VISIBLE_DEVICES by place, UUID or part of it, CUDA_DEVICE_ORDER, slices of a card (MIG)",
            "the command's number of each card, or that it is not known",
            (
                "readers/test_numbering::test_the_processes_word_counts_before_the_variable",
                "readers/test_numbering::test_without_their_word_the_variable_counts",
                "readers/test_numbering::test_cards_that_differ_are_numbered_by_speed_unless_told_otherwise",
                "readers/test_numbering::test_a_value_that_names_no_card_makes_the_numbers_unknown",
                "readers/test_numbering::test_processes_that_differ_make_the_numbers_unknown",
                "readers/test_numbering::test_what_stands_behind_a_number_that_is_none_is_not_seen",
                "readers/test_numbering::test_the_numbers_of_a_divided_card_are_unknown",
                "device/test_device::test_cuda_sees_the_visible_devices_and_nvml_sees_all",
            ),
        ),
        Item(
            "processes in a PID namespace of their own, seen from outside (NSpid); the supervisor inside one",
            "one number of a process; or said not to be known",
            (
                "collect/test_namespace::test_its_own_number_is_read",
                "collect/test_namespace::test_the_command_s_own_numbers_are_recorded_once",
                "collect/test_namespace::test_numbers_that_cannot_be_translated_are_said_to_be",
                "readers/test_bundle::test_a_process_of_another_namespace_is_known_by_the_number_it_has_for_itself",
            ),
        ),
    ),
    "Verdicts on death": (
        Item(
            "MemoryError, a kill by the group's limit, one for the whole machine, somebody else's kill, plain SIGKILL, "
            "a timeout, bus error on /dev/shm, a stall without any kill; cgroup v1 and v2",
            "verdict",
            (
                "trust/test_verdicts::test_each_death_is_told_apart",
                "trust/test_verdicts::test_a_machine_that_shows_no_group",
            ),
        ),
        Item("137 and nothing else", "never a cause", ("trust/test_verdicts::test_137_alone_proves_nothing",)),
        Item(
            "the same for real where a group can be made",
            "verdict",
            (
                "run/test_evidence::test_a_kill_by_the_kernel_shows_in_the_counters",
                "trust/test_verdicts::test_real_deaths",
            ),
        ),
        Item(
            "real groups of version 2, recorded in a virtual machine: the command moves into one, both are in one, one "
            "is killed whole, the limit of the group above, a child's kill; with and without the kernel's log",
            "verdict",
            (
                "trust/test_version_2::test_a_kill_by_the_groups_limit",
                "trust/test_version_2::test_a_group_that_is_killed_whole_leaves_what_was_recorded",
                "trust/test_version_2::test_a_group_that_counts_nothing_hides_no_kill_of_another_and_proves_none_away",
            ),
        ),
    ),
}


def functions(file: str) -> dict[str, set[str]]:
    """The tests of a file, with the names of their marks."""
    tree = ast.parse((ROOT / "tests" / f"{file}.py").read_text())
    return {
        node.name: {
            mark.attr for line in node.decorator_list for mark in ast.walk(line) if isinstance(mark, ast.Attribute)
        }
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def table() -> str:
    """The matrix as Markdown."""
    lines: list[str] = []
    for group, items in GROUPS.items():
        lines += [f"\n### {group}\n", "| what | what is compared | test |", "|---|---|---|"]
        for item in items:
            names = []
            for test in item.tests:
                file, _, name = test.partition("::")
                marks = functions(file)[name]
                note = " (extended)" if "extended" in marks else " (device)" if file.startswith("device/") else ""
                names.append(f"[{name.removeprefix('test_')}](../tests/{file}.py){note}")
            lines.append(f"| {item.what.replace('|', chr(92) + '|')} | {item.compared} | {'<br>'.join(names)} |")
    return "\n".join(lines)[1:] + "\n\n"


def page(text: str) -> str:
    """The page with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
