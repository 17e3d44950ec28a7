from tests.ci.github.conftest import contract

__all__ = ["contract"]
