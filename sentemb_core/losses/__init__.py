"""Loss functions on vectors and masks: no encoder, no device, no file."""
