"""Training of shallow ReLU networks on a line, from kernel to adaptive."""
