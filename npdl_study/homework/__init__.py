"""Homework cut out of npdl's own source, and the grading of it.

`python -m npdl homework --out DIR` passes assignment (which layers, which files), blanks (the
holes in npdl's source), hints (what a hole keeps), handout (README and tests of the folder).

A student's pytest asks selftest. `python -m npdl homework grade FOLDER` passes grading (the class,
its files of grades) and isolated (a process for each task); services has the same grader for
Gradescope and GitHub Classroom. Both ask submissions for the student's
file, judging what a layer is asked and what is right, splice for what the student wrote, and
isolated for what it answers.
"""
