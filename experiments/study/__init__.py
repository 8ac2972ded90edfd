"""The study of Assignment 4, Problem 4: eight questions on an LSTM and a GPT that learn sums.

`runs` holds the kept runs, `verdict` the statistical rule, q1_q2 .. q8 a question each, `report`
writes experiments/REPORT.md; `python -m experiments.study` makes missing runs."""
