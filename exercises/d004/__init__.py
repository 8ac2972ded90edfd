"""Document 004: an LSTM and a GPT written out, their loss, and what is said of the runs."""
