"""Document 001: a divergence taken apart, shapes through time, an autoencoder, attention."""
