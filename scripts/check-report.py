#!/usr/bin/env python3
"""Opens pages of `batchlab report` or `batchlab reproduce` in headless Chromium and uses them as a reader does.

    scripts/check-report.py PAGE.html… [--screenshots DIR]

Checks that the console has no error and nothing is loaded, that a value appears under the pointer, that a click on a heading
sorts, that a click in a legend hides a series, that every link within the page has its target, and that no page is wider than a
phone. Leaves screenshots of a desktop, a phone and the dark. Needs chromium and chromedriver (Debian: chromium-driver).
Without them it says that it skipped, or fails with REQUIRE_CHROMIUM=1. Exit codes: 0 all checks hold, 1 a check fails.
"""

import argparse
import base64
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
).split()

SORT = """
const number = (row) => parseFloat(row.cells[COLUMN].textContent.replace(/,/g, ""));
const tables = [...document.querySelectorAll("table")].filter((table) => table.tBodies[0].rows.length > 1);
const table = tables.find((table) => table.querySelector("td.number"));
if (!table) return "no table has numbers";
const COLUMN = table.querySelector("td.number").cellIndex;
const button = table.tHead.rows[0].cells[COLUMN].querySelector("button");
for (const sign of [1, -1]) {
  button.click();
  const found = [...table.tBodies[0].rows].map(number).filter((value) => !Number.isNaN(value));
  if (found.some((value, i) => i > 0 && sign * (value - found[i - 1]) < 0)) return `not sorted: ${found}`;
}
return "";
"""

LINKS = """
const links = [...document.querySelectorAll("a[href^='#']")].map((link) => link.getAttribute("href").slice(1));
const dead = links.filter((id) => !document.getElementById(id));
return links.length === 0 ? "no navigation" : dead.length > 0 ? `no target: ${dead}` : "";
"""

# Where a spot and a legend's entry are on the screen, once they have been scrolled to.
PLACES = """
const svg = [...document.querySelectorAll("figure svg")].find((svg) => svg.querySelector("g[role=button]") && svg.querySelector(".spot"));
if (!svg) return null;
svg.scrollIntoView({ block: "center", behavior: "instant" });
const key = svg.querySelector("g[role=button]");
const own = (one) => one.dataset.series === key.dataset.series;
const middle = (element) => {
  const { left, top, width, height } = element.getBoundingClientRect();
  return [Math.round(left + width / 2), Math.round(top + height / 2)];
};
const series = [...svg.querySelectorAll("g.series")].find(own);
return { spot: middle([...svg.querySelectorAll(".spot")].find(own)), key: middle(key), name: key.dataset.series, series, button: key };
"""

TIP = "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.textContent;"
WIDE = "return document.documentElement.scrollWidth > innerWidth ? `${document.documentElement.scrollWidth} px wide` : '';"
SHOWN = "return getComputedStyle(arguments[0]).display !== 'none';"
LOADED = "return performance.getEntriesByType('resource').map((one) => one.name).join(' ');"


class Browser:
    """A session of chromedriver, over HTTP."""

    def __init__(self, driver, chromium, profile):
        self.process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = None
        for line in self.process.stdout:
            if "started successfully on port" in line:
                port = int(line.rstrip().rstrip(".").split()[-1])
                break
        if port is None:
            raise SystemExit("chromedriver did not start")
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        options = {"binary": chromium, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        created = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.base = f"/session/{created['sessionId']}"

    def call(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body or {}) if method == "POST" else None)
        answer = json.loads(self.connection.getresponse().read())["value"]
        if isinstance(answer, dict) and "error" in answer:
            raise SystemExit(f"chromedriver: {answer['error']}: {answer['message'].splitlines()[0]}")
        return answer

    def post(self, path, **body):
        return self.call("POST", self.base + path, body)

    def run(self, script, *arguments):
        return self.post("/execute/sync", script=script, args=list(arguments))

    def devtools(self, name, **parameters):
        return self.post("/goog/cdp/execute", cmd=name, params=parameters)

    def pointer(self, place, click=False):
        actions = [{"type": "pointerMove", "duration": 0, "x": place[0], "y": place[1]}]
        if click:
            actions += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.post("/actions", actions=[{"type": "pointer", "id": "mouse", "actions": actions}])

    def screen(self, width, height, dark):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, file):
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        try:
            self.call("DELETE", self.base)
        finally:
            self.process.terminate()
            self.process.wait()


def checked(browser, page, folder):
    """The failures of a page."""
    failures = []

    def check(what, wrong):
        if wrong:
            failures.append(f"{page}: {what}: {wrong}")

    browser.screen(1280, 900, dark=False)
    browser.post("/url", url=page.resolve().as_uri())
    check("links", browser.run(LINKS))
    check("sorting", browser.run(SORT))
    places = browser.run(PLACES)
    if places is None:
        check("figures", "none has values and a legend")
    else:
        time.sleep(0.2)
        browser.pointer(places["spot"])
        tip = browser.run(TIP)
        check("hover", "" if places["name"] in tip and any(c.isdigit() for c in tip) else f"shows {tip!r}")
        if folder:
            browser.picture(folder / f"{page.stem}-hover.png")
        for expected in (False, True):
            browser.pointer(places["key"], click=True)
            if browser.run(SHOWN, places["series"]) != expected:
                check("legend", f"a click does not {'show' if expected else 'hide'} {places['name']}")
            if not expected and folder:
                browser.picture(folder / f"{page.stem}-hidden.png")
        browser.pointer([0, 0])
    log = browser.post("/se/log", type="browser")
    browser.post("/refresh")
    for name, width, dark in [("desktop", 1280, False), ("phone", 390, False), ("dark", 1280, True)]:
        browser.screen(width, 900, dark)
        check(name, browser.run(WIDE))
        if folder:
            height = min(browser.run("scrollTo(0, 0); return document.documentElement.scrollHeight;"), 6000)
            browser.screen(width, height, dark)
            browser.picture(folder / f"{page.stem}-{name}.png")
    check("loads", browser.run(LOADED))
    log += browser.post("/se/log", type="browser")
    check("console", "; ".join(entry["message"] for entry in log))
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=pathlib.Path, metavar="PAGE.html")
    parser.add_argument("--screenshots", type=pathlib.Path, metavar="DIR")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        required = os.environ.get("REQUIRE_CHROMIUM") == "1"
        print(
            f"{'failed' if required else 'skipped'}: no chromium or no chromedriver (Debian: apt-get install chromium-driver)",
            file=sys.stderr,
        )
        return int(required)
    missing = [str(page) for page in options.pages if not page.is_file()]
    if missing:
        parser.error(f"no such page: {', '.join(missing)}")
    if options.screenshots:
        options.screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(driver, chromium, profile)
        try:
            failures = [failure for page in options.pages for failure in checked(browser, page, options.screenshots)]
        finally:
            browser.close()
    print("\n".join(failures) or f"{len(options.pages)} pages hold all checks in a browser")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
