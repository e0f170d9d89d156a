"""Reads the whole site in a browser, as a reader would from file://, and plays with the stepper: `make site-test`.

Needs the site (`make site`), playwright and a Chromium or Chrome, named by CHROMIUM or found in PATH.
Exit status: 0 all well, 1 faults found, 2 no browser or no site.
"""

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

ROOT = Path(__file__).resolve().parents[3]
SITE = ROOT / "build" / "site"
sys.path.insert(0, str(ROOT / "tools" / "book"))

from playwright.sync_api import Error, sync_playwright  # noqa: E402

from pictures import traces  # noqa: E402

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 800}


def refuse(words):
    print(f"site-test: {words}", file=sys.stderr)
    sys.exit(2)


def browser_program():
    named = os.environ.get("CHROMIUM")
    found = [shutil.which(name) for name in ([named] if named else ["chromium", "chromium-browser", "google-chrome"])]
    if not any(found):
        what = f"CHROMIUM is {named}, which is no program" if named else "there is no Chromium or Chrome here"
        refuse(f"{what}: install one (Debian: apt-get install chromium) or name it with CHROMIUM=/path/to/it")
    return next(filter(None, found))


class Reader:
    """A browser's page that notes every fault: errors on the console, requests that fail or leave the site."""

    def __init__(self, browser, scheme="light", viewport=WIDE):
        self.faults = []
        self.page = browser.new_page(color_scheme=scheme, viewport=viewport)
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.fault(f"console: {said.text}"))
        self.page.on("pageerror", lambda error: self.fault(f"script: {error}"))
        self.page.on("request", lambda request: self.check_request(request.url))
        self.page.on("requestfailed", lambda request: self.fault(f"not loaded: {request.url}"))

    def fault(self, words):
        where = unquote(urlparse(self.page.url).path).removeprefix(f"{SITE}/")
        self.faults.append(f"{where}: {words}")

    def expect(self, found, expected, what):
        if found != expected:
            self.fault(f"{what}: {found}, not {expected}")

    def check_request(self, url):
        if urlparse(url).scheme not in ("data", "blob", "about") and not url.startswith(SITE.as_uri()):
            self.fault(f"asks for {url}, outside the site")

    def open(self, file):
        self.page.goto(file.as_uri())


# What the page says outside of code.
PROSE = """article => {
  const copy = article.cloneNode(true);
  copy.querySelectorAll("pre, code").forEach((code) => code.remove());
  return copy.textContent;
}"""


def check_page(reader, ids):
    """One page that is open; ids: the anchors of every page."""
    page = reader.page
    prose = page.eval_on_selector("article", PROSE)
    if "[[[" in prose:
        reader.fault("a cog marker shows")
    if "$" in prose:
        reader.fault("a dollar sign shows: a formula that was not drawn?")
    for src, alt, width in page.eval_on_selector_all("article img", "all => all.map(i => [i.src, i.alt, i.naturalWidth])"):
        if not width:
            reader.fault(f"{src} is no picture")
        if not alt:
            reader.fault(f"{src} has no alt text")
    for link in page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)"):
        check_link(reader, link, ids)


def check_link(reader, link, ids):
    if not link.startswith("file:"):
        return  # the web's, to follow by hand
    address, anchor = urldefrag(link)
    target = Path(unquote(urlparse(address).path))
    if not target.is_file() or not target.is_relative_to(SITE):
        reader.fault(f"links to {target}, which is not in the site")
    elif anchor and unquote(anchor) not in ids.get(target, ()):
        reader.fault(f"links to {target.relative_to(SITE)}#{anchor}, which is not there")


def check_width(reader):
    wide, room = reader.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    if wide > room:
        reader.fault(f"the page is {wide} pixels wide in a window of {room}")


def check_pages(browser):
    files = sorted(file for file in SITE.rglob("*.html") if "_static" not in file.parts)
    reader = Reader(browser)
    ids = {}
    for file in files:
        reader.open(file)
        ids[file] = set(reader.page.eval_on_selector_all("[id]", "all => all.map(e => e.id)"))
    for scheme, viewport in (("light", WIDE), ("dark", NARROW)):
        again = Reader(browser, scheme, viewport)
        for file in files:
            again.open(file)
            check_page(again, ids)
            check_width(again)
        reader.faults += again.faults
    return len(files), reader.faults


def check_search(browser):
    reader = Reader(browser)
    reader.open(SITE / "index.html")
    reader.page.fill("input[name=q]", "abandoned")
    reader.page.press("input[name=q]", "Enter")
    found = reader.page.locator("#search-results li a")
    try:
        found.first.wait_for(timeout=10000)
    except Error:
        reader.fault("the search finds nothing")
    return reader.faults


# The stepper --------------------------------------------------------------------------------------------------------
def fact(reader, chapter, name):
    return int(reader.page.get_attribute(f"[data-chapter='{chapter}'] [data-fact={name}]", "data-value"))


def check_panel(reader, chapter, at):
    """What the stepper shows of one chapter at one forward against the trace's JSON."""
    forward = traces.load(f"results/traces/{chapter}.json")["forwards"][at]
    panel = f"[data-chapter='{chapter}']"
    what = f"{chapter}, forward {at + 1}, "
    held = [position for position in forward["after"] if position != traces.NO_TOKEN]
    reader.expect(fact(reader, chapter, "fed"), len(forward["ids"]), what + "tokens fed")
    reader.expect(fact(reader, chapter, "position"), forward["first_position"], what + "position")
    reader.expect(fact(reader, chapter, "keys"), len(forward["visible"][-1]), what + "keys seen")
    reader.expect(fact(reader, chapter, "held"), len(held), what + "slots held")
    reader.expect(fact(reader, chapter, "bytes"), forward["bytes"], what + "bytes held")
    shown = reader.page.eval_on_selector_all(f"{panel} .stepper-slots li", "all => all.map(e => e.dataset.state)")
    reader.expect(shown, [slot.state for slot in traces.slots(forward)], what + "slots")
    rows = reader.page.eval_on_selector_all(
        f"{panel} .stepper-mask tr:has(th[scope=row])",
        "all => all.map(r => [...r.querySelectorAll('td')].map(d => d.matches('.stepper-seen') ? 1 : 0))",
    )
    reader.expect(rows, forward["visible"], what + "mask")


def check_stepper(browser, viewport):
    reader = Reader(browser, viewport=viewport)
    reader.open(SITE / "book" / "stepper.html")
    page = reader.page
    left, right = page.get_by_label("Show", exact=True), page.get_by_label("beside", exact=True)
    chapters = left.locator("option").all_text_contents()
    forwards = len(traces.load(f"results/traces/{chapters[0]}.json")["forwards"])
    recorded = {file.stem for file in (ROOT / "data" / "results" / "traces").glob("*.json")}  # not every chapter has a trace
    reader.expect(chapters, sorted(f.name for f in (ROOT / "chapters").glob("[0-9][0-9]_*") if f.name in recorded), "chapters")

    def click(step):  # at an end, too, where the button says that it is disabled
        page.click(f"[data-step={step}]", force=True)

    def expect_at(at, *shown):
        reader.expect(page.inner_text(".stepper-count"), f"forward {at + 1} of {forwards}", "forward")
        panels = page.eval_on_selector_all(".stepper-panel", "all => all.map(e => e.dataset.chapter)")
        reader.expect(panels, list(shown), "panels")
        for chapter in shown:
            check_panel(reader, chapter, at)

    for first, second in zip(chapters, chapters[1:] + chapters[:1]):  # every chapter on both sides, through to the end
        left.select_option(first)
        right.select_option(second)
        click("start")
        for at in range(forwards):
            expect_at(at, first, second)
            click("next")
        expect_at(forwards - 1, first, second)  # past the end it stays
        click("back")
        expect_at(forwards - 2, first, second)

    page.locator("h1").click()  # the keys, with no control in focus
    for key, at in (("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        expect_at(at, first, second)
    page.focus("[data-step=next]")
    page.keyboard.press("Enter")
    expect_at(2, first, second)
    status = page.get_by_role("status").inner_text()
    if "Forward 3" not in status or first not in status or second not in status:
        reader.fault(f"the status line says: {status}")
    right.select_option("")
    expect_at(2, first)
    token = traces.tokens(traces.load(f"results/traces/{first}.json"))[5]
    reader.expect(page.inner_text(".stepper-text mark").strip(), token.strip(), "token")
    check_width(reader)
    return reader.faults


def main():
    program = browser_program()
    if not (SITE / "index.html").is_file():
        refuse("there is no site: run `make site`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        pages, faults = check_pages(browser)
        faults += check_search(browser)
        for viewport in (WIDE, NARROW):
            try:
                faults += check_stepper(browser, viewport)
            except Error as error:  # something to click is not there, or hidden
                faults.append(f"book/stepper.html: {error.message.splitlines()[0]}")
        browser.close()
    for fault in dict.fromkeys(faults):
        print(f"site-test: {fault}", file=sys.stderr)
    print(f"site-test: {pages} pages read in light and dark, wide and narrow; {len(set(faults))} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
