"""What runs inside the watched process: standard library only, Python 3.8 and later."""
