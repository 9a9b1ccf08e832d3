"""Where the parts of SQL text that hold no words end: comments, strings and quoted names, by the rules of Spark's lexer.

Each function is given the place where such a part begins and returns the place after it, or None if it does not end.
"""

from __future__ import annotations


def line_comment_end(text: str, start: int) -> int:
    """After a `--` comment: the end of its line. A backslash before the line end carries it on."""
    at = start
    while at < len(text) and text[at] not in "\r\n":
        at += 2 if text.startswith("\\\n", at) else 1
    return at


def block_comment_end(text: str, start: int) -> int | None:
    """After a `/* */` comment; comments nest."""
    depth, at = 0, start
    while at < len(text):
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if depth == 0:
                return at
        else:
            at += 1
    return None


def string_end(text: str, start: int, *, raw: bool) -> int | None:
    """After a string in single or double quotes: a doubled quote and a backslash do not end it, unless it is raw."""
    quote, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\" and not raw:
            at += 2
        elif text[at] != quote:
            at += 1
        elif raw or not text.startswith(quote, at + 1):
            return at + 1
        else:
            at += 2
    return None


def identifier_end(text: str, start: int) -> int | None:
    """After a name in backquotes; a doubled backquote does not end it."""
    at = start + 1
    while at < len(text):
        if text[at] != "`":
            at += 1
        elif text.startswith("`", at + 1):
            at += 2
        else:
            return at + 1
    return None


def word_end(text: str, start: int) -> int:
    """After a run of letters, digits and underscores."""
    at = start
    while at < len(text) and (text[at] == "_" or text[at].isalnum()):
        at += 1
    return at


def dollar_string_end(text: str, start: int) -> int | None:
    """After a string between two equal tags, `$$ ... $$` or `$body$ ... $body$`; the start itself where there is no tag."""
    at = start + 1
    while at < len(text) and text[at].isascii() and text[at].isalpha():
        at += 1
    if not text.startswith("$", at):
        return start
    tag = text[start : at + 1]
    end = text.find(tag, at + 1)
    return None if end < 0 else end + len(tag)
