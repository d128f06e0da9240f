"""Rules: their language, their loading and checking, and matching them against facts."""
