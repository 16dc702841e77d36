"""The explorer: a page on which one types a shape question, and sees the answer and where it comes from."""
