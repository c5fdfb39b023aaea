"""Which line may run after which, what is defined and used where, and what lives in between."""
