"""The exception tree: its shape, its hints, its pickles."""

from __future__ import annotations

import inspect
import pickle

import pytest

from indextables import errors
from indextables.errors import IndexTablesError

CLASSES = [
    c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, IndexTablesError)
]

TREE = {
    "NotFoundError": {"TableNotFoundError", "VersionNotFoundError"},
    "AlreadyExistsError": {"TableExistsError"},
    "ConflictError": set(),
    "CommitUnknownError": set(),
    "CleanupError": set(),
    "CheckpointError": {"CheckpointWriteError", "CheckpointValidationError"},
    "UnsupportedError": set(),
    "CorruptTableError": {"LogGapError", "BadFileError", "MissingSplitError"},
    "SourceChangedError": set(),
    "InvalidInputError": {"SchemaMismatchError", "QuerySyntaxError", "UnknownOptionError"},
    "RefusedError": set(),
    "StorageError": {"AccessDeniedError", "StorageFullError", "ThrottledError", "UnavailableError"},
}


def test_the_tree_has_this_shape() -> None:
    found = {
        c.__name__: {s.__name__ for s in c.__subclasses__()}
        for c in IndexTablesError.__subclasses__()
    }
    assert found == TREE


def test_the_docstring_draws_every_class() -> None:
    assert errors.__doc__ is not None
    assert [c.__name__ for c in CLASSES if c.__name__ not in errors.__doc__] == []


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_has_a_kind_a_hint_and_survives_a_pickle(cls: type[IndexTablesError]) -> None:
    error = cls("It broke.", path="t", version=3)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert (again.message, again.hint, again.context) == (
        "It broke.",
        cls.default_hint,
        {"path": "t", "version": 3},
    )
    assert str(again) == f"It broke. {cls.default_hint}"
    assert again.to_dict()["kind"] == cls.kind


def test_kinds_are_distinct() -> None:
    assert len({c.kind for c in CLASSES}) == len(CLASSES)
