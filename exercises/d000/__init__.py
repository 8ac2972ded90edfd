"""Document 000: normalisation, search in trees, a bidirectional RNN, LoRA and quantization."""
