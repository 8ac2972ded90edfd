"""The report of the study of document 004: what is kept of its runs, drawn, tabled, judged."""
