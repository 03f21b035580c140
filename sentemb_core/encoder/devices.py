"""Where encoders compute."""

import torch


def compute_device() -> torch.device:
    """The first CUDA device that torch sees, else the CPU; `CUDA_VISIBLE_DEVICES=` hides them."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
