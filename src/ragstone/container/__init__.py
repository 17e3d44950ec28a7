"""The sandbox that the user's code runs in when Ragstone runs in its container."""
