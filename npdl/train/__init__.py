"""Training runs: checkpoints, metrics, fine-tuning, sweeps, their commands, and real models."""
