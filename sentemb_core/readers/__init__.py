"""Readers: who reads a view's rows in training, and with which disturbance."""
