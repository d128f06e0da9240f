"""Running a command under watch, as if it were not watched."""
