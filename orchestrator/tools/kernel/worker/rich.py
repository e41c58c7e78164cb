"""Cells with IPython."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

from .commands import Commands
from .screen import Screen, pretty
from .source import NEEDS_LOOP
from .turns import Turns


class RichShell:
    """IPython's own shell, with our output, tracebacks, commands and loop. Raises ImportError if there is none to use."""

    def __init__(self, names: dict[str, Any], screen: Screen, turns: Turns, commands: Commands, folder: str) -> None:
        import IPython
        from IPython.core.interactiveshell import InteractiveShell

        if IPython.version_info[0] < 8:
            raise ImportError(f"IPython {IPython.__version__} is too old")

        class Shell(InteractiveShell):  # type: ignore[misc]
            def init_virtualenv(self) -> None:
                """The interpreter was chosen; packages of another are not to be mixed in."""

        self.screen, self.turns = screen, turns
        self.ipython_version = IPython.__version__
        screen.folders.append(os.path.dirname(IPython.__file__))
        self.told: BaseException | None = None  # also of a formatter, which the result does not name
        config = importlib.import_module("traitlets.config").Config()
        config.HistoryManager.enabled = False
        config.HistoryManager.hist_file = ":memory:"
        config.InteractiveShell.colors = "NoColor"
        self.shell = shell = Shell.instance(
            config=config, ipython_dir=folder, user_module=sys.modules["__main__"], user_ns=names
        )
        shell.system, shell.getoutput = commands.system, commands.getoutput
        shell.register_magic_function(commands.script, "cell", "bash")
        shell.register_magic_function(lambda line, body: commands.script(line, body, "/bin/sh"), "cell", "sh")
        shell.register_magic_function(commands.pip, "line", "pip")
        shell.showtraceback = shell.showsyntaxerror = shell.showindentationerror = self.tell
        shell.displayhook.write_output_prompt = lambda: None
        shell.displayhook.write_format_data = self.display
        shell.set_hook("show_in_pager", self.page)
        shell.display_formatter.active_types = ["text/plain"]
        for container in (dict, list, tuple, set, frozenset):
            # IPython gives every item of a longer one a line of its own.
            shell.display_formatter.formatters["text/plain"].for_type(container, pretty)
        shell.loop_runner = turns.in_loop
        warnings.filterwarnings("ignore", message="To exit: use")

    def run(self, source: str, name: str) -> BaseException | None:
        shell = self.shell
        shell.compile.get_code_name = lambda *_: name
        self.told = None
        problem: Any = None
        try:
            text = shell.transform_cell(source)
        except Exception:
            text, problem = source, sys.exc_info()
        needs_loop = NEEDS_LOOP.search(source) or shell.should_run_async(
            source, transformed_cell=text, preprocessing_exc_tuple=problem
        )
        cell = shell.run_cell_async(source, True, transformed_cell=text, preprocessing_exc_tuple=problem)
        try:
            result = self.turns.drive(cell, bool(needs_loop))
        except BaseException as error:
            self.turns.tell(error)
            return error
        ended: BaseException | None = result.error_before_exec or result.error_in_exec
        return ended or self.told

    def tell(self, exc_tuple: Any = None, *_: Any, **__: Any) -> None:
        self.told = exc_tuple[1] if isinstance(exc_tuple, tuple) else sys.exc_info()[1]
        if self.told is not None:
            self.turns.tell(self.told)

    def display(self, forms: dict[str, Any], *_: Any) -> None:
        self.screen.say(forms.get("text/plain", "") + "\n")

    def page(self, _: Any, data: Any, **__: Any) -> None:
        self.screen.say((data["text/plain"] if isinstance(data, dict) else data) + "\n")
