"""Side inputs of a stream, and the gates where elements wait for them."""
