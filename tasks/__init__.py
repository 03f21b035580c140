"""Stages of the core as Prefect tasks: cached, tried again, tracked, registered."""
