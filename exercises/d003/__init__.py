"""Document 003: threshold neurons, parity, beam search, eigenvalues, graphs, a review."""
