"""A headless Chromium, told what to do by its own debugging protocol: JSON over a WebSocket on loopback."""

import json
import re
import shutil
import socket
import struct
import subprocess
import time
import urllib.request

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self, place, width, height=1000, dark=False):
        self.folder, self.size, self.dark = place / "browser", (width, height), dark
        self.number, self.events = 0, []

    def __enter__(self):
        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
             f"--user-data-dir={self.folder}", "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        port = next(int(found[1]) for line in self.process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)/", line)))
        self.socket = self.connect(port)
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        width, height = self.size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"}])
        return self

    def __exit__(self, kind, error, trace):
        self.socket.close()
        self.process.terminate()
        self.process.stderr.close()
        self.process.wait()

    @staticmethod
    def connect(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            page = next(each for each in json.load(answer) if each["type"] == "page")
        path = page["webSocketDebuggerUrl"].split(str(port), 1)[1]
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                           "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += connection.recv(1)
        return connection

    def receive(self, count):
        data = b""
        while len(data) < count:
            data += self.socket.recv(count - len(data))
        return data

    def message(self):
        length = self.receive(2)[1] & 127
        if length > 125:
            length, = struct.unpack(*((">H", self.receive(2)) if length == 126 else (">Q", self.receive(8))))
        return json.loads(self.receive(length))

    def call(self, method, **parameters):
        self.number += 1
        text = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        head = bytes([0x81, 0x80 | len(text)]) if len(text) < 126 else bytes([0x81, 0xFE]) + struct.pack(">H", len(text))
        self.socket.sendall(head + bytes(4) + text)  # masked, as clients must, with zeros
        while True:
            message = self.message()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def press(self, key):
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression, seconds=30):
        end = time.monotonic() + seconds
        guarded = f"(() => {{ try {{ return {expression} }} catch {{ return null }} }})()"  # the page may not be there yet
        while not (value := self.evaluate(guarded)):
            assert time.monotonic() < end, f"{expression} never came true: {self.evaluate('document.body.innerText')[:2000]}"
            time.sleep(0.1)
        return value

    def complaints(self):
        """What the console has of errors, and exceptions."""
        return [event for event in self.events if event["method"] == "Runtime.exceptionThrown"
                or event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"
                or event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] == "error"]
