"""What is lost, what a copy is worth, where it goes: decided; every module is pure."""
