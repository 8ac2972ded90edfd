"""Runs: training, checkpoints, metrics, fine-tuning, sweeps; the commands; real models."""
