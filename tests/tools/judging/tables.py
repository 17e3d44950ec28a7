"""Opens a table on the page for labelling."""

from __future__ import annotations

import json
import time

from tests.report.browser import Page


def open_table(page: Page, name: str, text: str) -> None:
    """Choose a file of this name and text, as a person does, and wait until it is shown."""
    page.run("document.getElementById('status').textContent = 'opening'")
    page.run(
        f"""(() => {{
          const files = new DataTransfer();
          files.items.add(new File([{json.dumps(text)}], {json.dumps(name)}, {{ type: "text/csv" }}));
          const input = document.getElementById("file");
          input.files = files.files;
          input.dispatchEvent(new Event("change"));
        }})()"""
    )
    while page.run("document.getElementById('status').textContent") == "opening":
        time.sleep(0.01)
