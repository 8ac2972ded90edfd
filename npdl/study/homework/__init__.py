"""Make homework from npdl's layers, and grade it.

    commands      the commands `python -m npdl homework` and `python -m npdl homework grade`
    exercise      makes an exercise from a layer: a class with a blank backward
    handout       writes a folder with exercises, tests and a README
    home          tests a student's layer in this folder
    answers       runs layers on test cases, and awards points
    grading       grades submissions, and finds equal code
    submissions   finds the files of students
    sandbox       runs a student's file in a process with limits
    child         the program of this process
"""
