from typing import Any


def compile_from(
    transform_id: str, operation: Any, consumers: Any, factory: Any, descriptor: Any
) -> Any:
    factory.tracker = factory.state_sampler
    return None
