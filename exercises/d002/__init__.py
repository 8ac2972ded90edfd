"""Document 002: gradients through time, GRU and LSTM, attention and its cost."""
