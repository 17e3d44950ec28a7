from tests.github.conftest import contract

__all__ = ["contract"]
