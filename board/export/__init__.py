"""What leaves the board as a file of its own, and the parts of it that pages show too."""
