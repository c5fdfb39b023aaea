"""A bound on what one parse or one execution may take: bytes, frames."""


class Budget:
    """What may still be taken of ``total``. All that one parse or one execution takes counts."""

    def __init__(self, total: int) -> None:
        self.total = self.left = total

    def take(self, amount: int) -> bool:
        """Take an amount for good. False if less is left; then nothing is taken."""
        if not self.has(amount):
            return False
        self.left -= amount
        return True

    def has(self, amount: int) -> bool:
        """Whether an amount is left, for a use that ends at once."""
        return amount <= self.left
