"""Stores in SQL: relations, the questions asked of them, and what each dialect needs."""
