"""Pictures: models that answer a question in their title, and how a terminal draws them."""
