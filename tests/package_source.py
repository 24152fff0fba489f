"""The package's source, parsed once for all tests that read it: five of them look at every file."""

import ast
import io
import tokenize
from functools import cache


@cache
def tree(text: str) -> ast.Module:
    """The tree of a text, for all who only look at it."""
    return ast.parse(text)


@cache
def nodes(text: str) -> list[ast.AST]:
    """Every node of that tree, in the order of `ast.walk`, which takes ten times as long as the list."""
    return list(ast.walk(tree(text)))


@cache
def tokens(text: str) -> list[tokenize.TokenInfo]:
    """The tokens of a text, comments among them."""
    return list(tokenize.generate_tokens(io.StringIO(text).readline))
