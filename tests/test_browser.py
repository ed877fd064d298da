"""A newcomer in a real browser: make lab, type an answer, see *correct*; open a lab, see what was recorded."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
SLOW_MS = 120_000  # a busy machine of two cores starts a kernel in tens of seconds

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason=f"no browser here: none of {', '.join(BROWSERS)} (Debian: apt install chromium)"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course as a learner has it, with the same environment."""
    copy = tmp_path_factory.mktemp("course")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if not name.startswith(("tests/", "data/runs/sim")) and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    # Up to date first: `make lab` in the copy would otherwise install the copy into the real environment.
    subprocess.run(["make", "env"], cwd=ROOT, capture_output=True, check=True)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    return copy


@pytest.fixture(scope="module")
def lab(course: Path) -> Iterator[str]:
    """The address that ``make lab`` prints, with its token; the server ends with the tests."""
    log = course / "lab.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            ["make", "lab", "ARGS=--no-browser --ServerApp.port=0 --ServerApp.port_retries=0 --LabApp.expose_app_in_browser=True"],
            cwd=course, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 180
        while not (found := re.search(r"http://127\.0\.0\.1:\d+/lab\S*", log.read_text())):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield found[0]
    finally:
        os.killpg(server.pid, signal.SIGINT)
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


@pytest.fixture(scope="module")
def window(lab: str) -> Iterator[Any]:
    """A browser with JupyterLab in it, as ``make lab`` opens it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=QUIET)
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        page.set_default_timeout(SLOW_MS)
        page.errors = []
        page.on("console", lambda message: message.type == "error" and page.errors.append(message.text))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(lab)
        yield page
        browser.close()


@pytest.fixture
def page(window: Any) -> Any:
    """That window; every error that a test writes to its console is kept in ``page.errors``."""
    window.errors.clear()
    return window


def open_notebook(page: Any, name: str) -> None:
    """Open ``name`` in JupyterLab, as its file list would, and wait for it."""
    page.wait_for_function("() => window.jupyterapp && window.jupyterapp.commands.hasCommand('docmanager:open')")
    script = "path => window.jupyterapp.restored.then(() => window.jupyterapp.commands.execute('docmanager:open', {path})).then(() => null)"
    page.evaluate(script, name)
    wait_for_notebook(page, name)


def wait_for_notebook(page: Any, name: str) -> None:
    """Wait until ``name`` is in front and its kernel is idle."""
    page.locator(".lm-DockPanel-tabBar .lm-mod-current", has_text=Path(name).name).first.wait_for()
    page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").first.wait_for()
    # The page's own sign says idle before there is a kernel, and whoever runs a cell then is asked which kernel to take.
    page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.context?.sessionContext?.session?.kernel?.status === 'idle'")


def cell(page: Any, text: str) -> Any:
    """The code cell that holds ``text``, scrolled into view."""
    found = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").filter(has_text=text).first
    found.scroll_into_view_if_needed()
    return found


def run(page: Any, which: Any) -> None:
    """Click into a cell and press Shift+Enter, again if nothing happens as a person would; then wait for its number."""
    from playwright.sync_api import expect

    prompt = which.locator(".jp-InputPrompt")
    for patience_ms in (10_000, SLOW_MS):  # on a busy machine the page may draw the cell anew between click and key
        which.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        try:
            expect(prompt).to_have_text(re.compile(r"\[(\*|\d+)\]"), timeout=patience_ms)
            break
        except AssertionError:
            if patience_ms == SLOW_MS:
                raise
    expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=SLOW_MS)


def test_a_newcomer_gets_a_first_green_mark(page: Any) -> None:
    """make lab opens notebook 00; an answer typed into it and run is *correct*; nothing errs in the console."""
    wait_for_notebook(page, "00-start-here.ipynb")
    run(page, cell(page, "from pdlab.course import"))
    check = cell(page, 'check("0.1"')
    assert "not attempted" in check.inner_text()

    for typed, outcome in (("2000", r"0\.1 not yet"), ("2000 + 200", r"0\.1 correct")):
        answer = cell(page, "Exercise 0.1")
        answer.locator(".cm-content").click()
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type(f"# Exercise 0.1\ntokens_held = {typed}")
        run(page, answer)
        run(page, check)
        check.get_by_text(re.compile(outcome)).first.wait_for()
    assert page.errors == []


def test_a_terminal_knows_the_command(lab: str, course: Path) -> None:
    """In a terminal of JupyterLab `pdlab` is the course's own, and what the server keeps lies in the course's folder."""
    import websocket

    base, token = re.match(r"http://([^/]+)/lab\S*?token=(\w+)", lab).groups()
    allowed = {"Authorization": f"token {token}"}
    request = urllib.request.Request(f"http://{base}/api/terminals", b"{}", allowed, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        name = json.load(answer)["name"]
    terminal = websocket.create_connection(f"ws://{base}/terminals/websocket/{name}", header=allowed, timeout=30)
    try:
        terminal.send(json.dumps(["stdin", "command -v pdlab\r"]))
        shown = ""
        while f"{course}/.venv/bin/pdlab" not in shown:  # a terminal that stays silent ends this after 30 s
            kind, *words = json.loads(terminal.recv())
            shown += words[0] if kind == "stdout" else ""
            assert "not found" not in shown, shown
    finally:
        terminal.close()
    assert list((course / ".jupyter" / "runtime").glob("jpserver-*.json"))


@pytest.mark.parametrize("number", ["L2"])
def test_a_lab_shows_its_recorded_banner_and_a_figure(page: Any, course: Path, number: str) -> None:
    """A lab that nobody has run live says that its numbers are recorded, and shows a figure with words for it."""
    names = sorted((course / "labs").glob(f"{number}-*.ipynb"))
    if not names:
        pytest.skip(f"lab {number} is not in the course yet")
    open_notebook(page, names[0].relative_to(course).as_posix())
    panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    panel.get_by_text(re.compile(r"recorded \d{4}-\d\d-\d\d")).first.wait_for()
    figure = panel.locator("img[alt]").first
    figure.scroll_into_view_if_needed()
    assert len(figure.get_attribute("alt")) > 40
    assert figure.bounding_box()["width"] > 200
    assert page.errors == []
