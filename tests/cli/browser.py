"""A headless Chromium for tests, spoken to by its DevTools protocol over a pipe. Nothing but the
standard library is needed, and nothing of the network is used."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# What of a page is wider than it, and which charts are empty. Parts that scroll by themselves may
# hold what is wider.
LOOK = """(() => {
  const width = document.documentElement.clientWidth, wide = [];
  for (const e of document.body.querySelectorAll('*')) {
    const box = e.getBoundingClientRect();
    if (box.width && (box.right > width + 0.5 || box.left < -0.5) && !e.closest('.scroll table'))
      wide.push(e.tagName + '.' + e.className + ' ' + Math.round(box.right));
  }
  if (document.documentElement.scrollWidth > width)
    wide.push('page ' + document.documentElement.scrollWidth);
  const colours = canvas => {
    const data = new Uint32Array(canvas.getContext('2d').getImageData(
        0, 0, canvas.width, canvas.height).data.buffer);
    return new Set(data).size;
  };
  const charts = Array.from(document.querySelectorAll('canvas'), c =>
      ({name: c.closest('figure').dataset.name, colours: c.width && c.height ? colours(c) : 0}));
  return {width: width, wide: wide, charts: charts};
})()"""


class Page:
    """A page in a browser of its own. Use with `with`."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="quern-browser-")
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()
        fixed = [os.dup(to_read), os.dup(to_write)]

        def place():
            os.dup2(fixed[0], 3)
            os.dup2(fixed[1], 4)
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=self.folder))
        for end in (to_read, to_write, *fixed):
            os.close(end)
        self.number, self.held, self.session, self.complaints = 0, b"", None, []
        target = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in target if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.read_end)
        os.close(self.write_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _next(self, until):
        """The next message; an event is looked at for complaints."""
        while b"\0" not in self.held:
            if not select.select([self.read_end], [], [], max(0, until - time.monotonic()))[0]:
                raise OSError("the browser does not answer")
            read = os.read(self.read_end, 1 << 20)
            if not read:
                raise OSError("the browser has ended")
            self.held += read
        text, self.held = self.held.split(b"\0", 1)
        message = json.loads(text)
        method, about = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(about["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(about["args"])[:600])
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(about["entry"])[:600])
        elif method == "Network.requestWillBeSent":
            url = about["request"]["url"]
            if not url.startswith(("file:", "blob:", "data:", "about:")):
                self.complaints.append("a request to " + url)
        return message

    def call(self, method, **about):
        self.number += 1
        message = {"id": self.number, "method": method, "params": about}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + 120
        while True:
            answer = self._next(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path, width, is_dark=False):
        """Opens a file as on a screen of a width; its errors come to complaints."""
        self.width = width
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])
        url = pathlib.Path(path).resolve().as_uri()
        self.call("Page.navigate", url=url)
        until = time.monotonic() + 120
        while self.ask("document.readyState + location.href") != "complete" + url:
            if time.monotonic() > until:
                raise OSError("the page is not loaded")
            time.sleep(0.05)
        self.settle()

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.ask("new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")

    def ask(self, expression):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def look(self):
        """{width, wide: what is wider than the page, charts: [{name, colours}]}."""
        return self.ask(LOOK)

    def picture(self, path):
        """A PNG of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        self.call("Emulation.setDeviceMetricsOverride", width=self.width,
                  height=int(size["height"]), deviceScaleFactor=1, mobile=self.width < 600)
        self.settle()
        shot = self.call("Page.captureScreenshot", format="png")
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
