"""The probe: what oomdoctor runs inside the watched process. Standard library only, Python 3.8 and later.

Nothing in here may raise into the user's code, initialise a device, or keep the user's objects alive.
Only what `start` imports is loaded in every Python process; the rest waits for the event that needs it.
"""
