"""Worked solutions whose script has no room for them; each module is named as its script."""
