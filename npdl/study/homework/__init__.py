"""Homework from npdl's layers, and its grading.

`python -m npdl homework` (commands) cuts exercises out of layers (exercise) and writes a folder
with tests (handout), which award the points of the grader (home, answers). The grader (grading)
finds files (submissions), runs them in processes (sandbox, child), and notices copies (similarity).
"""
