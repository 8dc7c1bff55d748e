#!/usr/bin/python3
"""Writes one image of Fashion-MNIST's test set as a PNG and prints the name of its class.

    script/sample.py INDEX FILE.png"""
import gzip
import pathlib
import struct
import sys
import zlib

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")
CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker",
           "Bag", "Ankle boot"]


def png(width, height, pixels):
    """A grey 8-bit PNG."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))

    rows = b"".join(b"\0" + pixels[y * width:(y + 1) * width] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    index = int(sys.argv[1])
    images = gzip.decompress((FOLDER / "t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((FOLDER / "t10k-labels-idx1-ubyte.gz").read_bytes())
    _, _, height, width = struct.unpack(">IIII", images[:16])
    start = 16 + index * height * width
    pathlib.Path(sys.argv[2]).write_bytes(png(width, height, images[start:start + height * width]))
    print(CLASSES[labels[8 + index]])


if __name__ == "__main__":
    main()
