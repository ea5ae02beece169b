"""A camera that serves MJPEG or HLS over HTTP, with a password if it has one."""

import base64
import contextlib
import http.server
import re
import threading

from harness.rtsp import video


def jpegs():
    return re.findall(b"\xff\xd8.*?\xff\xd9", video(container="mjpeg", frames=10), re.S)


class HttpCamera:
    """Serves `files` {path: bytes}; /mjpeg is an endless stream of pictures."""

    def __init__(self, files=None, login=None, rate=25, status=None):
        camera = self
        self.over = threading.Event()
        self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                camera.asked.append(self.path)
                wanted = "Basic " + base64.b64encode(":".join(login).encode()).decode() if login else None
                with contextlib.suppress(OSError):
                    if status:
                        self.send_error(status)
                    elif wanted and self.headers.get("Authorization") != wanted:
                        self.send_response(401)
                        self.send_header("WWW-Authenticate", 'Basic realm="camera"')
                        self.end_headers()
                    elif self.path == "/mjpeg":
                        self.send_pictures()
                    elif self.path in (files or {}):
                        self.send_response(200)
                        self.send_header("Content-Length", str(len(files[self.path])))
                        self.end_headers()
                        self.wfile.write(files[self.path])
                    else:
                        self.send_error(404)

            def send_pictures(self):
                self.send_response(200)
                self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=--next")
                self.end_headers()
                pictures = jpegs()
                for count in range(10**9):
                    picture = pictures[count % len(pictures)]
                    self.wfile.write(b"--next\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n%s\r\n" % (len(picture), picture))
                    if camera.over.wait(1 / rate):
                        return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
