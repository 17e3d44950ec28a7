from tests.github.api.conftest import contract

__all__ = ["contract"]
