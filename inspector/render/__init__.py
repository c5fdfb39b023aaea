"""What is printed: JSON by the contract, tables for people."""
