"""A terminal of tmux's: what a program shows on it."""
import shlex
import subprocess
import tempfile
import time


class Screen:
    def __init__(self, columns, rows, *command):
        self.place = tempfile.TemporaryDirectory(prefix="spex-screen-")
        self.tmux = ["tmux", "-S", f"{self.place.name}/socket"]
        self.run("-f", "/dev/null", "start-server", ";", "set", "-g", "status", "off", ";", "set",
                 "-g", "remain-on-exit", "on", ";",
                 "new-session", "-d", "-x", str(columns), "-y", str(rows), shlex.join(command))

    def run(self, *words):
        return subprocess.run(self.tmux + list(words), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def text(self):
        return self.run("capture-pane", "-p").stdout

    def press(self, *keys):
        """Keys by name (Enter), or single letters."""
        self.run("send-keys", *keys)

    def type(self, line):
        self.run("send-keys", "-l", line)
        self.press("Enter")

    def until(self, want, seconds=600):
        """The screen once it has what is wanted, or None."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.text()
            if want(text):
                return text
            time.sleep(0.1)

    def end(self):
        self.run("kill-server")
        self.place.cleanup()
