"""The study of document 004, Problem 4: eight questions on an LSTM and a GPT that learn sums.

A run is made by `launch` (the command `python -m experiments.study`) and kept by `records`; each
question has a module: its runs, numbers, figure and the document's claims as rows. `judge` says
what becomes of a claim, `questions` asks it for all; `report` (`python experiments/report.py`)
fills the pages from them.
"""
