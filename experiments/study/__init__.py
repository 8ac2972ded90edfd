"""The study of Assignment 4, Problem 4: eight questions on an LSTM and a GPT that learn sums.

`runs` reads stored runs, `verdict` has the statistical rule, q1_q2 to q8 answer the questions, and
`report` writes the page REPORT.md. `python -m experiments.study` trains missing runs.
"""
