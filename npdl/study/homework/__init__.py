"""Homework from npdl's layers, and its grading.

`python -m npdl homework --out DIR` (commands) cuts exercises out of layers (exercise) and writes a
folder with tests (handout). The tests at home (home) and the grader ask the same questions and
award the same points (answers, judge).

`python -m npdl homework grade FOLDER` reads each student's files (submissions), runs them in
processes of their own (sandbox, child, seal), and writes grades and feedback (grading). It notices
copies (similarity), and works at Gradescope (services).
"""
