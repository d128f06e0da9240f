"""What differs between two incidents, or between the ranks of one."""
