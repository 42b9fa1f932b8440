"""The version of the package, which is that of the program in the same wheel (Cargo.toml)."""

__version__ = "0.1.0"
