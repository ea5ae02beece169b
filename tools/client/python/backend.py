"""Builds the package for pip (PEP 517) with only the standard library, so that pip needs no network."""

import base64
import hashlib
import io
import pathlib
import runpy
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "src"
VERSION = runpy.run_path(str(SOURCE / "framed" / "version.py"))["__version__"]
METADATA = f"""Metadata-Version: 2.1
Name: framed
Version: {VERSION}
Summary: Client of the frame-processing daemon framed: frames and results in shared memory, over the standard library alone
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
"""
WHEEL = """Wheel-Version: 1.0
Generator: framed
Root-Is-Purelib: true
Tag: py3-none-any
"""


def package():
    """(name in the wheel, bytes) of each module, and of the marker file for types."""
    for path in sorted((SOURCE / "framed").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            yield f"framed/{path.name}", path.read_bytes()


def write_wheel(folder, files):
    info = f"framed-{VERSION}.dist-info"
    name = f"framed-{VERSION}-py3-none-any.whl"
    record = ""
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in [*files, (f"{info}/METADATA", METADATA.encode()), (f"{info}/WHEEL", WHEEL.encode())]:
            wheel.writestr(zipfile.ZipInfo(path), data)  # a fixed date, so that the same sources make the same file
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
        wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD"), f"{record}{info}/RECORD,,\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, package())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """For `pip install -e`: the package is imported from the sources."""
    return write_wheel(wheel_directory, [("framed.pth", f"{SOURCE}\n".encode())])


def build_sdist(sdist_directory, config_settings=None):
    folder = f"framed-{VERSION}"
    files = [(name, (HERE / name).read_bytes()) for name in ("pyproject.toml", "backend.py")]
    files += [(f"src/{name}", data) for name, data in package()] + [("PKG-INFO", METADATA.encode())]
    with tarfile.open(pathlib.Path(sdist_directory) / f"{folder}.tar.gz", "w:gz") as archive:
        for name, data in files:
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return f"{folder}.tar.gz"
