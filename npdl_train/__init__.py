"""Runs of npdl: training and its folders, real models, and the commands."""
