"""Solutions of the courses' questions: `python -m exercises`. See README.md and course.py."""
