"""One training loop for CPU, GPU and many GPUs; optimizers, schedules, checkpoints."""
