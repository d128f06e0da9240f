from harness import ends, no_core_files  # noqa: F401
