"""Measures how many frames a second this client moves through a pipeline whose sink is `reply`. It fills the frames only once.

    throughput.py /run/framed/cam0.sock
"""

import argparse
import json
import time

import framed


def run(client: framed.Client, seconds: float) -> "tuple[int, float]":
    """(results, seconds that they took), with as many frames in flight as there are slots."""
    for n in range(client.welcome.slots):
        frame = client.acquire()
        frame.memory[:] = bytes([n]) * len(frame.memory)
        client.submit(frame, n)
    count, begun = 0, time.perf_counter()
    now, until = begun, begun + seconds
    while now < until:
        result = client.receive()
        if result is not None:
            result.release()
        client.submit(client.acquire())
        count += 1
        if count % 16 == 0:
            now = time.perf_counter()
    client.finish()
    return count, now - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("socket")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--stream", action="store_true", help="through the connection, not shared memory")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    transport = framed.Transport.STREAM if arguments.stream else framed.Transport.SHARED
    with framed.connect(arguments.socket, transport=transport) as client:
        count, seconds = run(client, arguments.seconds)
    rate = count / seconds
    found = {"transport": client.transport.name.lower(), "frames": count, "seconds": round(seconds, 3), "frames_per_s": round(rate, 1),
             "gb_per_s": round(rate * client.welcome.input_bytes / 1e9, 3)}
    print(json.dumps(found) if arguments.json else "{transport}: {frames_per_s} frames/s, {gb_per_s} GB/s each way".format(**found))


if __name__ == "__main__":
    try:
        main()
    except (framed.Error, OSError) as error:
        raise SystemExit(f"throughput.py: {error}") from None
