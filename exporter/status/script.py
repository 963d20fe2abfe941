"""The page's one script: it takes over what has changed, and says when nobody answers any more.

Without it the page reloads itself. It is inside the page, and allowed by its digest alone.
"""

from base64 import b64encode
from hashlib import sha256
from typing import Final

SCRIPT: Final = """
(() => {
  const every = 5000, lost = document.getElementById("lost");
  let seen = Date.now();
  const take = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html");
    if (!next.getElementById("answer")) throw new Error("no status page");
    document.title = next.title;
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = next.getElementById(part.id);
      if (fresh && fresh.outerHTML !== part.outerHTML) part.replaceWith(fresh);
    }
    seen = Date.now();
    lost.hidden = true;
    document.body.classList.remove("lost");
  };
  const fail = () => {
    const age = Math.round((Date.now() - seen) / 1000);
    lost.querySelector("b").textContent = age + " s";
    lost.hidden = false;
    document.body.classList.add("lost");
    document.title = "\\u2205 NO ANSWER \\u00b7 orphanwatch";
  };
  const ask = async () => {
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), every);
    try {
      const answer = await fetch(location.pathname, {cache: "no-store", signal: patience.signal});
      if (!answer.ok) throw new Error(answer.status);
      take(await answer.text());
    } catch {
      fail();
    }
    clearTimeout(timer);
    setTimeout(ask, every);
  };
  setTimeout(ask, every);
})();
"""

SCRIPT_SOURCE: Final = f"'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}'"
"""What a Content-Security-Policy allows it by."""
