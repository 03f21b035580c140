"""What happens, in the papers' order: one module per flow, and the command line over them."""
