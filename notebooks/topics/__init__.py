"""What notebooks show, by topic: functions that compute named arrays, and functions that draw them."""
