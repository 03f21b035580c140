"""Terms: losses of one or two methods, wired to the views, masks and networks of a step."""
