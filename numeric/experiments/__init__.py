"""What tries a statement on networks that are drawn or trained; nothing else stands on it."""
