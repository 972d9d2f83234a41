"""Findings in the forms that CI systems read. Values in, text out."""
