#!/usr/bin/env python3
"""Fetches the real GPT-2 (124M, openai-community/gpt2) from the Hugging Face hub into data/gpt2.

    tools/fetch_gpt2.py [--to FOLDER] [--from URL]

An interrupted run goes on where it stopped. A file appears under its own name only when its size and SHA-256 are
right; one that is there and right is not fetched again. About 550 MB. Only Python's standard library is needed.

Exit status: 0 all files are there and right, 1 a file could not be had, 2 bad usage.
"""

import argparse
import hashlib
import http.client
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

if sys.version_info < (3, 10):
    sys.exit("fetch_gpt2: Python 3.10 or newer is needed, this is " + sys.version.split()[0])

REVISION = "607a30d783dfa663caf39e06633721c8d4cfcd7e"
FILES = {  # name: (size, sha256), the small ones first
    "config.json": (665, "0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4"),
    "merges.txt": (456318, "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"),
    "vocab.json": (1042301, "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"),
    "model.safetensors": (548105171, "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707"),
}
HUB = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
ROOT = Path(__file__).resolve().parent.parent

TRIES = 4  # in a row without a new byte; a connection that breaks but moves on is resumed as often as needed
PAUSE = 2.0  # seconds before the second try, then twice as long each time
TIMEOUT = 30
BLOCK = 1 << 18
NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)


class FetchError(Exception):
    """The fault and its remedy, one line."""


def amount(size: int) -> str:
    for unit, bytes_in_unit in (("MB", 10**6), ("kB", 10**3)):
        if size >= bytes_in_unit:
            return f"{size / bytes_in_unit:.1f} {unit}"
    return f"{size} bytes"


class Progress:
    """One line on standard error, rewritten ten times a second; nothing where that is no terminal."""

    def __init__(self, name: str, total: int, already: int):
        self.name, self.total, self.already = name, total, already
        self.shown = sys.stderr.isatty()
        self.start = self.last = time.monotonic()

    def show(self, done: int) -> None:
        now = time.monotonic()
        if not self.shown or (now - self.last < 0.1 and done < self.total):
            return
        self.last = now
        rate = (done - self.already) / max(now - self.start, 1e-3)
        line = f"{self.name}: {amount(done)} of {amount(self.total)}, {100 * done // self.total} %, {amount(int(rate))}/s"
        sys.stderr.write(f"\r{line:<78}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r" + " " * 78 + "\r")
            sys.stderr.flush()


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def is_right(path: Path, size: int, digest: str) -> bool:
    return path.is_file() and path.stat().st_size == size and sha256(path) == digest


def receive(url: str, part: Path, size: int) -> None:
    """Asks for what `part` lacks and appends it; at most `size` bytes in all. May stop early: the caller looks."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "kv-cache-book", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        resumed = response.status == 206
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise FetchError(f"{url} answered with another part than asked for; choose another mirror with --from")
        if not resumed:  # a server that ignores Range sends everything again
            have = 0
        progress = Progress(part.name.removesuffix(".part"), size, have)
        try:
            with part.open("ab" if resumed else "wb") as file:
                while have < size and (block := response.read(min(BLOCK, size - have))):
                    file.write(block)
                    have += len(block)
                    progress.show(have)
                if have == size and response.read(1):
                    file.truncate(0)
                    raise FetchError(f"{url} is larger than the file looked for; choose another mirror with --from")
        finally:
            progress.clear()


def reason_of(error: Exception) -> tuple[str, bool]:
    """A short text, and whether trying again may help."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code} ({error.reason})", error.code == 429 or error.code >= 500
    if isinstance(error, urllib.error.URLError):
        return str(error.reason), True
    return str(error) or type(error).__name__, True


def download(url: str, part: Path, size: int) -> None:
    """Brings `part` to `size` bytes, resuming over broken connections."""
    tries = 0
    while True:
        have = part.stat().st_size if part.exists() else 0
        if have == size:
            return
        if have > size:
            part.unlink()
            have = 0
        why, again = "the connection broke", True
        try:
            receive(url, part, size)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and have:  # the server's file is shorter than our part: start over
                part.unlink()
                have = 0
            else:
                why, again = reason_of(error)
        except NETWORK_ERRORS as error:
            why, again = reason_of(error)
        now = part.stat().st_size if part.exists() else 0
        if now == size:
            return
        tries = 1 if now > have else tries + 1
        if not again or tries >= TRIES:
            raise FetchError(
                f"{url}: {why} at {amount(now)} of {amount(size)}; check the network and run this again, it goes on "
                "from there (--from URL takes another mirror)"
            )
        time.sleep(PAUSE * 2 ** (tries - 1))


def fetch(folder: Path, base: str, name: str, size: int, digest: str) -> None:
    target, part = folder / name, folder / (name + ".part")
    if is_right(target, size, digest):
        print(f"{name}: already there")
        return
    if target.exists():
        print(f"{name}: there, but not the right one; fetching it")
    url = f"{base}/{name}"
    resumed = part.exists() and part.stat().st_size > 0
    download(url, part, size)
    if resumed and sha256(part) != digest:  # perhaps what an earlier run left was bad: once more, all of it
        print(f"{name}: what was left of an earlier run does not fit; starting over")
        part.unlink()
        download(url, part, size)
    found = sha256(part)
    if found != digest:
        part.unlink()
        raise FetchError(
            f"{url} has other contents than expected (SHA-256 {found[:12]}..., not {digest[:12]}...); nothing was kept; "
            "run this again, or choose another mirror with --from"
        )
    os.replace(part, target)
    print(f"{name}: {amount(size)}, size and SHA-256 are right")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fetch_gpt2",
        description="Fetches the real GPT-2 (124M) from the Hugging Face hub, resumes, checks sizes and SHA-256.",
    )
    parser.add_argument("--to", metavar="FOLDER", type=Path, default=ROOT / "data" / "gpt2", help="default: data/gpt2")
    parser.add_argument(
        "--from",
        dest="base",
        metavar="URL",
        default=f"{HUB.rstrip('/')}/openai-community/gpt2/resolve/{REVISION}",
        help="the folder of the files on a mirror; default: %(default)s (the environment's HF_ENDPOINT replaces the host)",
    )
    options = parser.parse_args(arguments)
    base = options.base.rstrip("/")
    if not base.startswith(("http://", "https://")):
        parser.error(f"--from needs a URL that begins with http:// or https://, not '{base}'")
    try:
        options.to.mkdir(parents=True, exist_ok=True)
        for name, (size, digest) in FILES.items():
            fetch(options.to, base, name, size, digest)
    except FetchError as error:
        print(f"fetch_gpt2: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"fetch_gpt2: {error}; make room or choose a folder that can be written with --to", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nfetch_gpt2: stopped; run this again, it goes on from there", file=sys.stderr)
        return 130
    print(f"GPT-2 is complete in {options.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
