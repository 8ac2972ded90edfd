"""The courses' questions, worked out: `python -m exercises`. See README.md and course.py."""
