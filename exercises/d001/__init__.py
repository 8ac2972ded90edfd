"""Document 001: terms of a divergence, shapes through time, an autoencoder, attention."""
