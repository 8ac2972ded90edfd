"""Document 004: an LSTM and a GPT step by step, their loss, and the claims about the runs."""
