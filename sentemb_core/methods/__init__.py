"""Training methods, one file each, made of shared parts; README.md is their index."""
