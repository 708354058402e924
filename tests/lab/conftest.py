"""The lab's commands are tested with the same fixtures as the other commands."""

from tests.cli.conftest import (
    data_dir,
    execute,
    headway,
    headway_in_process,
    on_database,
)

__all__ = ["data_dir", "execute", "headway", "headway_in_process", "on_database"]
