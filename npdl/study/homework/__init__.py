"""Homework from npdl's layers, and its grading.

`python -m npdl homework` (commands) cuts exercises out of layers (exercise) and writes a folder
with tests (handout). The tests at home (home) and the grader award the same points (answers). The
grader (grading) finds the files (submissions), runs them in processes of their own (sandbox,
child), and notices copies (similarity).
"""
