"""A network camera: an RTSP server that sends H.264 over RTP, and that fails in every way that cameras do."""

import base64
import contextlib
import functools
import hashlib
import re
import socket
import struct
import subprocess
import tempfile
import threading
import time

from harness.waiting import limit

NTP_EPOCH = 2208988800  # seconds from 1900 to 1970
PAYLOAD = 1200  # most bytes of a packet
SDP = ("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=camera\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\n"
       "a=rtpmap:96 {codec}/90000\r\na=fmtp:96 packetization-mode=1\r\na=control:track1\r\n")


@functools.lru_cache(maxsize=None)
def video(width=160, height=120, frames=50, gop=10, rate=25, container="h264", pattern="testsrc2"):
    """Bytes of a video made by ffmpeg."""
    with tempfile.NamedTemporaryFile(suffix=f".{container}") as file:
        h26x = ["-preset", "ultrafast", "-tune", "zerolatency", "-g", str(gop), "-pix_fmt", "yuv420p"]
        codec = {"mjpeg": ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p"],
                 "hevc": ["-c:v", "libx265", *h26x, "-x265-params", "aud=1:scenecut=0:log-level=none:repeat-headers=1"]}.get(
            container, ["-c:v", "libx264", *h26x, "-x264-params", "aud=1:scenecut=0"])
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"{pattern}{':' if '=' in pattern else '='}size={width}x{height}:rate={rate}",
                        "-frames:v", str(frames), *codec, file.name], check=True, timeout=limit(30), stdin=subprocess.DEVNULL)
        return file.read()


def pictures(stream, codec="H264"):
    """The pictures of a stream with access unit delimiters, each a list of its NAL units."""
    units = [unit.rstrip(b"\0") for unit in re.split(b"\0\0\0?\1", stream) if unit]
    found = []
    for unit in units:
        if (unit[0] & 31 == 9) if codec == "H264" else (unit[0] >> 1 == 35):
            found.append([])
        else:
            found[-1].append(unit)
    return found


def fragments(unit, codec="H264"):
    """Payloads of RTP for one NAL unit: itself, or its parts."""
    if len(unit) <= PAYLOAD:
        return [unit]
    h264 = codec == "H264"
    parts = [unit[at:at + PAYLOAD] for at in range(1 if h264 else 2, len(unit), PAYLOAD)]
    head = bytes([unit[0] & 0x60 | 28]) if h264 else bytes([unit[0] & 0x81 | 49 << 1, unit[1]])
    kind = unit[0] & 31 if h264 else unit[0] >> 1 & 63
    return [head + bytes([kind | (0x80 if i == 0 else 0) | (0x40 if i == len(parts) - 1 else 0)]) + part
            for i, part in enumerate(parts)]


class Camera:
    """Serves one stream to any number of clients, over and over. The arguments are its faults.

    answers      {method: status} in place of 200, or {method: None} for no answer at all
    login        (user, password); scheme "Basic" or "Digest"
    silent, cut  after so many pictures of the first client: sends nothing more, or closes the connection
    lost         lost(n) is true for a packet that is left out
    damage       damage(payload, n) is what is sent instead
    clock        seconds by which the camera's clock is ahead; None: it sends no reports
    begin        number of the picture that it begins with
    jump         (picture, seconds): the time stamps jump there
    slow         time passes so many times as fast as the time stamps say
    """

    def __init__(self, stream=None, rate=25, answers=None, login=None, scheme="Digest", silent=None, cut=None, lost=None, damage=None,
                 clock=None, codec="H264", begin=0, jump=None, slow=1):
        self.pictures = pictures(stream or video(), "H265" if codec == "H265" else "H264")
        self.rate, self.answers, self.login, self.scheme, self.codec = rate, answers or {}, login, scheme, codec
        self.silent, self.cut, self.lost, self.damage, self.clock, self.begin, self.jump = silent, cut, lost, damage, clock, begin, jump
        self.slow = slow
        self.sessions = self.ended = 0
        self.began = []  # when each picture's first packet was sent
        self.over = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"rtsp://127.0.0.1:{self.port}/main"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.over.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while not self.over.is_set():
                connection = self.listener.accept()[0]
                threading.Thread(target=Session(self, connection).run, daemon=True).start()

    def is_welcome(self, method, header):
        """Whether the client has shown that it knows the password."""
        if not self.login:
            return True
        user, password = self.login
        if self.scheme == "Basic":
            return header == "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        fields = dict(re.findall(r'(\w+)="([^"]*)"', header))
        one = hashlib.md5(f"{user}:camera:{password}".encode()).hexdigest()
        two = hashlib.md5(f"{method}:{fields.get('uri')}".encode()).hexdigest()
        return fields.get("response") == hashlib.md5(f"{one}:nonce:{two}".encode()).hexdigest()

    @property
    def challenge(self):
        return 'Basic realm="camera"' if self.scheme == "Basic" else 'Digest realm="camera", nonce="nonce"'


class Session:
    def __init__(self, camera, connection):
        self.camera, self.connection = camera, connection
        self.send_rtp = None
        self.sequence = self.sent = 0
        self.over = threading.Event()
        self.lock = threading.Lock()

    def run(self):
        with contextlib.suppress(OSError, ValueError), self.connection, self.connection.makefile("rb") as lines:
            while not self.over.is_set():
                first = lines.read(1)
                if first == b"$":
                    lines.read(struct.unpack(">BH", lines.read(3))[1])
                elif not first or not self.answer((first + lines.readline()).decode(), self.headers(lines)):
                    break
        self.over.set()

    @staticmethod
    def headers(lines):
        found = {}
        while (line := lines.readline().decode().strip()):
            name, _, value = line.partition(":")
            found[name.lower()] = value.strip()
        return found

    def answer(self, request, headers):
        """False: the connection ends."""
        method = request.split()[0]
        status = self.camera.answers.get(method, 200)
        if status is None:
            return True
        if method != "OPTIONS" and status == 200 and not self.camera.is_welcome(method, headers.get("authorization", "")):
            status = 401
        extra, body = getattr(self, f"on_{method.lower()}", lambda _: ("", ""))(headers) if status == 200 else ("", "")
        extra += f"WWW-Authenticate: {self.camera.challenge}\r\n" if status == 401 else ""
        self.camera.ended += method == "TEARDOWN"
        with self.lock:
            self.connection.sendall(f"RTSP/1.0 {status} said\r\nCSeq: {headers['cseq']}\r\nSession: 7;timeout=60\r\n{extra}"
                                    f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        if method == "PLAY" and status == 200:
            self.camera.sessions += 1
            threading.Thread(target=self.play, args=(self.camera.sessions,), daemon=True).start()
        return method != "TEARDOWN"

    def on_options(self, _headers):
        return "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n", ""

    def on_describe(self, _headers):
        return "Content-Type: application/sdp\r\n", SDP.format(codec=self.camera.codec)

    def on_setup(self, headers):
        ports = re.search(r"client_port=(\d+)-(\d+)", headers["transport"])
        if not ports:
            self.send_rtp = self.send_interleaved
            return "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n", ""
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.bind(("127.0.0.1", 0))
        self.send_rtp = lambda channel, packet: sender.sendto(packet, ("127.0.0.1", int(ports[channel + 1])))
        own = sender.getsockname()[1]
        return f"Transport: RTP/AVP;unicast;client_port={ports[1]}-{ports[2]};server_port={own}-{own + 1}\r\n", ""

    def send_interleaved(self, channel, packet):
        with self.lock:
            self.connection.sendall(b"$" + struct.pack(">BH", channel, len(packet)) + packet)

    def send_payload(self, payload, stamp, last):
        camera, number = self.camera, self.sent
        head = struct.pack(">BBHII", 0x80, 96 | (0x80 if last else 0), self.sequence & 0xFFFF, stamp & 0xFFFFFFFF, 7)
        self.sequence += 1
        self.sent += 1
        if not (camera.lost and camera.lost(number)):
            self.send_rtp(0, head + (camera.damage(payload, number) if camera.damage else payload))

    def send_report(self, stamp):
        wall = time.time() + self.camera.clock + NTP_EPOCH
        self.send_rtp(1, struct.pack(">BBHIIIIII", 0x80, 200, 6, 7, int(wall), int(wall % 1 * 2**32), stamp & 0xFFFFFFFF, 0, 0))

    def play(self, session):
        camera, begun, jumped = self.camera, time.monotonic(), 0
        with contextlib.suppress(OSError):
            for count in range(10**9):
                if session == 1 and count == camera.cut:
                    self.connection.shutdown(socket.SHUT_RDWR)
                if self.over.is_set() or camera.over.is_set() or (session == 1 and count in (camera.cut, camera.silent)):
                    return
                if camera.jump and count == camera.jump[0]:
                    jumped = int(camera.jump[1] * 90000)
                camera.began.append(time.monotonic())
                stamp = 1234567 + int(count * 90000 / camera.rate / camera.slow) + jumped
                if camera.clock is not None and count % camera.rate == 0:
                    self.send_report(stamp)
                units = camera.pictures[(camera.begin + count) % len(camera.pictures)]
                payloads = [part for unit in units for part in fragments(unit, "H265" if camera.codec == "H265" else "H264")]
                for i, payload in enumerate(payloads):
                    self.send_payload(payload, stamp, i == len(payloads) - 1)
                camera.over.wait(max(0, begun + (count + 1) / camera.rate - time.monotonic()))
