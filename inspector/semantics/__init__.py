"""What integer instructions of PTX compute, once for all rooms that compute with them."""
