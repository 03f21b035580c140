"""What happens, in the papers' order: one module a flow, and the command line over them."""
