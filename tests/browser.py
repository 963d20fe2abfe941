"""A real Chromium, driven through its own driver, for what only a browser can tell."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

CONTRASTS = """
const channel = c => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
const light = c => .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
const read = text => (text.match(/[\\d.]+/g) || []).map(Number);
const behind = node => {
  for (; node; node = node.parentElement) {
    const c = read(getComputedStyle(node).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c;
  }
  return [255, 255, 255];
};
const poor = [];
for (const node of document.body.querySelectorAll("*")) {
  const own = [...node.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  const box = node.getBoundingClientRect();
  if (!own || !box.width || node.closest("svg, script, style, noscript")) continue;
  const one = light(read(getComputedStyle(node).color)), other = light(behind(node));
  const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
  if (ratio < 4.5) poor.push(node.textContent.trim().slice(0, 40) + " " + ratio.toFixed(2));
}
return poor;
"""
"""Returns every text that stands out less than 4.5 to 1 (WCAG 2, level AA)."""


@contextmanager
def browsing(*, javascript: bool = True, width: int = 1200, height: int = 900) -> Iterator[Any]:
    """Open a browser for as long as the block lasts."""
    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.add_argument(f"--window-size={width},{height}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if not javascript:
        options.add_experimental_option(
            "prefs", {"profile.managed_default_content_settings.javascript": 2}
        )
    options.binary_location = "/usr/bin/chromium"
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        driver.set_page_load_timeout(30)
        yield driver
    finally:
        driver.quit()


def emulate(driver: Any, scheme: str, width: int | None = None) -> None:
    """Let the browser prefer light or dark, and be as wide as a phone where that is asked."""
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    if width is None:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    else:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 844, "deviceScaleFactor": 2, "mobile": True},
        )


def photograph(driver: Any, file: Path) -> None:
    """Write the whole page as a picture."""
    height = driver.execute_script("return document.documentElement.scrollHeight")
    # The window's own frame counts: without it a scrollbar stands in the picture, and the end not.
    frame = driver.execute_script("return outerHeight - innerHeight")
    driver.set_window_size(1200, min(height + frame, 4000))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(driver.get_screenshot_as_png())


def complaints(driver: Any) -> list[str]:
    """Return what the browser wrote to its console: errors, refused scripts, broken links."""
    return [entry["message"] for entry in driver.get_log("browser")]
