"""Paths stay inside the root."""

from __future__ import annotations

import pytest

from indextables.errors import InvalidInputError
from indextables.storage.location import check, check_folder, join, relative_to_root


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (("a", "b"), "a/b"),
        (("a/", "/b/", "c"), "a/b/c"),
        (("", "a"), "a"),
        (("a", ""), "a"),
        (("/base", "b"), "/base/b"),
    ],
)
def test_join(parts: tuple[str, ...], whole: str) -> None:
    assert join(*parts) == whole


def test_folders_may_end_in_a_slash() -> None:
    assert (check_folder("a/b/"), check_folder("a"), check_folder("")) == ("a/b", "a", "")


@pytest.mark.parametrize(
    ("root", "path", "inside"),
    [
        ("/data/t", "/data/t/p=1/x.split", "p=1/x.split"),
        ("/data/t/", "/data/t/x", "x"),
        ("s3://bucket/t", "s3://bucket/t/a b", "a b"),
        ("s3://bucket/t", "p=1/x", "p=1/x"),
    ],
)
def test_absolute_paths_become_relative(root: str, path: str, inside: str) -> None:
    assert relative_to_root(root, path) == inside


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/data/t", "/data/other/x"),
        ("/data/t", "/data/table/x"),
        ("/data/t", "/data/t/../other"),
        ("/data/t", "/data/t"),
        ("/data/t", "../other"),
        ("s3://bucket/t", "s3://other/t/x"),
        ("s3://bucket/t", "/x"),
    ],
)
def test_paths_outside_are_refused(root: str, path: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        relative_to_root(root, path)
    assert path in str(caught.value)


def test_the_refusal_says_what_a_path_is() -> None:
    with pytest.raises(
        InvalidInputError, match=r"'a/\.\./b' is not a path inside the store\. A path is relative"
    ):
        check("a/../b")
