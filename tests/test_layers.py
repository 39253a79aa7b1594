"""Imports point down: the layers below Ax never import it, nor the layers above them.

``ax_bridge`` meets Ax for all methods, and imports nothing of what stands on it.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ax_costaware"
# Authors of methods import it in their tests. It needs pytest.
TESTING = PACKAGE / "testing.py"
# The layers that work without Ax, each of which may import itself and those before it.
LAYERS = [
    "exceptions.py",
    "argument_checks.py",
    "laws",
    "space",
    "costs",
    "models",
    "acquisition",
    "core",
    "methods",
]
# What knows neither Ax nor the package, and may be imported above these layers.
BESIDE = ["display.py"]


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: expected no import that is relative"
            found |= _modules(node)
    return found


def _modules(node: ast.ImportFrom) -> set[str]:
    """The module, or modules of a package of ours that are imported by name."""
    if node.module != "ax_costaware":
        return {node.module or ""}
    return {
        f"ax_costaware.{alias.name}"
        if any((PACKAGE / name).exists() for name in (alias.name, f"{alias.name}.py"))
        else "ax_costaware"
        for alias in node.names
    }


def _files(place: Path) -> list[Path]:
    found = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    assert found
    return found


def _check_imports(files: list[Path], allowed: list[str]) -> None:
    """Of the package, only some parts are imported."""
    known = {name.removesuffix(".py") for name in allowed}
    for path in files:
        for module in _imports(path):
            root, *rest = module.split(".")
            if root == "ax_costaware":
                assert rest, f"{path} imports the whole package"
                assert rest[0] in known, f"{path} imports {module}, which stands above"


def _check_no_ax(files: list[Path]) -> None:
    for path in files:
        for module in _imports(path):
            assert module.split(".")[0] != "ax", f"{path} imports {module}"


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_of_a_layer(layer: str) -> None:
    files = _files(PACKAGE / layer)
    _check_no_ax(files)
    _check_imports(files, LAYERS[: LAYERS.index(layer) + 1])


@pytest.mark.parametrize("name", BESIDE)
def test_imports_of_what_stands_beside(name: str) -> None:
    files = _files(PACKAGE / name)
    _check_no_ax(files)
    _check_imports(files, [])


def test_imports_of_the_bridge() -> None:
    """Nothing of sessions, analyses, strategies and runners, nor of other modules on top."""
    _check_imports(_files(PACKAGE / "ax_bridge"), [*LAYERS, *BESIDE, "ax_bridge"])


def test_rules_see_no_model_and_no_inputs() -> None:
    methods = PACKAGE / "methods"
    rules = [*methods.glob("*/rules.py"), *methods.glob("*/rules/*.py"), *methods.glob("*/beta.py")]
    for path in (*rules, methods / "resolution_tree" / "tree.py"):
        for module in _imports(path):
            assert module.split(".")[0] not in {"botorch", "gpytorch", "torch"}, (
                f"{path} imports {module}"
            )


def test_nothing_heavy_is_imported_with_the_package() -> None:
    """Extras and plotting libraries are imported where they are used."""
    # What plain `import ax.api.client` imports anyhow is no cost of ours.
    allowed = {
        *("ax", "ax_costaware", "botorch", "gpytorch", "linear_operator", "torch"),
        *("numpy", "pandas", "plotly", "scipy", "threadpoolctl", "tqdm", "typing_extensions"),
        *sys.stdlib_module_names,
    }
    for path in sorted({*PACKAGE.rglob("*.py")} - {TESTING}):
        assert "ax_costaware.testing" not in _imports(path)
        heavy = {module.split(".")[0] for module in _at_import(path)} - allowed
        assert not heavy, f"{path} imports {sorted(heavy)} when it is imported"


def _at_import(path: Path) -> set[str]:
    """What a module imports outside of its functions and of what is for type checkers only."""
    found: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            nodes.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module or "")
        nodes.extend(ast.iter_child_nodes(node))
    return found
