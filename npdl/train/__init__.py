"""Training runs: checkpoints, metrics, fine-tuning, sweeps, commands, GPT-2 and Llama models."""
