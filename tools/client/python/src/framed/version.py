"""The version, in a module of its own so that it can be read without importing the others."""

__version__ = "0.1.0"
