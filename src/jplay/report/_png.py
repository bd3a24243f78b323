"""Small PNG images, without an imaging library."""

import base64
import struct
import zlib

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB, _RGBA = 2, 6


def png_bytes(image):
    """Encode an image of shape (height, width, 3 or 4) and dtype uint8.

    Parameters
    ----------
    image : ndarray of shape (height, width, 3) or (height, width, 4)

    Returns
    -------
    bytes
    """
    image = np.ascontiguousarray(image, dtype=np.uint8)
    height, width, channels = image.shape
    color_type = _RGB if channels == 3 else _RGBA
    header = struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)
    # Each row starts with the number of its filter; 0 is none.
    rows = np.zeros((height, 1 + width * channels), dtype=np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    body = zlib.compress(rows.tobytes(), 9)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def png_uri(image):
    """Encode an image as a ``data:`` address."""
    return "data:image/png;base64," + base64.b64encode(png_bytes(image)).decode("ascii")


def _chunk(kind, content):
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
