"""Debian's chromium without a window, driven through pipes by the DevTools protocol."""
import base64, fcntl, json, os, select, shutil, subprocess, tempfile, time

CHROMIUM = shutil.which("chromium")


class Browser:
    def __init__(self):
        # high numbers: a shell puts the child's ends where it looks for them, 3 and 4
        to_child, self.write_end = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in os.pipe())
        self.read_end, from_child = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in os.pipe())
        self.directory = tempfile.mkdtemp(prefix="spex-chromium-")
        command = 'exec "$0" "$@" 3<&{} 4>&{} {}<&- {}>&-'.format(to_child, from_child, to_child,
                                                                  from_child)
        self.child = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, "--headless=new", "--remote-debugging-pipe",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--force-color-profile=srgb",
             "--font-render-hinting=none", "--disable-extensions",
             f"--user-data-dir={self.directory}", "about:blank"],
            pass_fds=(to_child, from_child), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.directory})
        os.close(to_child)
        os.close(from_child)
        self.rest, self.number, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")

    def receive(self, seconds):
        """The next message, or None."""
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                return None
            more = os.read(self.read_end, 1 << 16)
            if not more:
                raise RuntimeError("chromium ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(120)
            if answer is None:
                raise RuntimeError(f"{method}: no answer")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(
                answer["exceptionDetails"].get("exception", {}).get("description", str(answer)))
        return answer["result"].get("value")

    def open(self, path, width=1400, height=900, dark=False, motion=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media="",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events = []
        self.call("Page.navigate", url="file://" + path)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            event = self.receive(120)
            if event is None:
                raise RuntimeError(f"{path} does not load")
            self.events.append(event)
        self.frame()
        self.path = path

    def frame(self):
        """Waits until what was asked for is drawn, also what is far from what is seen."""
        self.run("""new Promise(done => {
            const look = () => document.querySelector("[aria-busy=true]")
                ? setTimeout(look, 10) : requestAnimationFrame(done);
            requestAnimationFrame(() => requestAnimationFrame(look));
        })""")

    def problems(self):
        """Errors of the page, and requests other than for itself."""
        out = []
        for e in self.events:
            p = e.get("params", {})
            if e.get("method") == "Runtime.exceptionThrown":
                out.append(p["exceptionDetails"].get("exception", {}).get("description", str(p)))
            elif (e.get("method") == "Runtime.consoleAPICalled" and
                  p["type"] in ("error", "warning", "assert")):
                out.append(str(p["args"]))
            elif (e.get("method") == "Log.entryAdded" and
                  p["entry"]["level"] in ("error", "warning")):
                out.append(p["entry"]["text"])
            elif (e.get("method") == "Network.requestWillBeSent" and p["request"]["url"] !=
                  "file://" + self.path and not p["request"]["url"].startswith("blob:")):
                out.append("request: " + p["request"]["url"])
            elif e.get("method") == "Page.javascriptDialogOpening":
                out.append("dialog: " + p["message"])
        return out

    def mouse(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                  buttons=1 if kind != "mouseReleased" else 0, clickCount=1)

    def drag(self, selector, start, end):
        """From one place of an element to another, as shares of its width."""
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: "
                 f"'center'}})")
        x, y, width, height = self.run(
            "(r => [r.x, r.y, r.width, "
            f"r.height])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")
        y += height / 3
        self.mouse("mousePressed", x + width * start, y)
        for i in range(1, 6):
            self.mouse("mouseMoved", x + width * (start + (end - start) * i / 5), y)
        self.mouse("mouseReleased", x + width * end, y)
        self.frame()

    def key(self, key, text=None):
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38,
                "ArrowRight": 39, "ArrowLeft": 37}.get(key, 0)
        text = {"Enter": "\r"}.get(key, text)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key,
                  windowsVirtualKeyCode=code, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key,
                  windowsVirtualKeyCode=code)
        self.frame()

    def screenshot(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                         **({"clip": {"x": 0, "y": 0, "width": self.run("innerWidth"),
                                      "height": self.run("document.documentElement.scrollHeight"),
                                      "scale": 1}} if whole else {}))
        with open(path, "wb") as f:
            f.write(base64.b64decode(shot["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.child.wait(20)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.child.kill()
            self.child.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
