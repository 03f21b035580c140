"""Training: one loop for all methods, its batches, its checkpoints."""
