"""Tests of tools/fetch_gpt2.py, against a small server on the loopback address. Standard library only."""

import contextlib
import hashlib
import importlib.util
import io
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / "tools" / "fetch_gpt2.py"
spec = importlib.util.spec_from_file_location("fetch_gpt2", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

CONTENTS = {"config.json": b'{"n_layer": 12}', "model.safetensors": bytes(range(256)) * 4096}
BIG = CONTENTS["model.safetensors"]


class Server(ThreadingHTTPServer):
    """Serves CONTENTS. The fields choose how it misbehaves; `requests` records (path, Range, status)."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        self.contents = dict(CONTENTS)
        self.ranges = True  # answers Range with 206
        self.wrong_range = False  # answers Range with another part
        self.cut_after = None  # breaks the connection after this many bytes of a body
        self.statuses = []  # statuses to answer first
        self.redirect = False  # sends the reader from / to /cdn/, as the hub does
        self.requests = []

    def handle_error(self, request, client_address):
        pass  # a reader that hangs up is part of some tests


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format, *arguments):
        pass

    def answer(self, status, headers=(), body=b"", cut=None):
        self.server.requests.append((self.path, self.headers.get("Range"), status))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if cut is None else body[:cut])

    def do_GET(self):
        server = self.server
        if server.statuses:
            return self.answer(server.statuses.pop(0))
        if server.redirect and not self.path.startswith("/cdn/"):
            return self.answer(302, [("Location", "/cdn" + self.path)])
        body = server.contents.get(self.path.removeprefix("/cdn").lstrip("/"))
        if body is None:
            return self.answer(404)
        asked = self.headers.get("Range")
        if not asked or not server.ranges:
            return self.answer(200, [], body, server.cut_after)
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        if server.wrong_range:
            start = 0
        if start >= len(body):
            return self.answer(416)
        headers = [("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")]
        return self.answer(206, headers, body[start:], server.cut_after)


class FetchGpt2Test(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "a folder" / "gpt2"
        self.part = self.folder / "model.safetensors.part"
        self.replace(tool, "FILES", {n: (len(b), hashlib.sha256(b).hexdigest()) for n, b in CONTENTS.items()})
        self.replace(tool, "PAUSE", 0.0)
        self.replace(tool, "TIMEOUT", 5)
        self.replace(tool.urllib.request, "_opener", None)  # no proxy of the environment for the loopback address
        proxies = tool.urllib.request.ProxyHandler({})
        tool.urllib.request.install_opener(tool.urllib.request.build_opener(proxies))

    def replace(self, module, name, value):
        self.addCleanup(setattr, module, name, getattr(module, name))
        setattr(module, name, value)

    def run_tool(self):
        self.out, self.err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            return tool.main(["--to", str(self.folder), "--from", f"http://127.0.0.1:{self.server.server_port}"])

    def leave_part(self, data):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.part.write_bytes(data)

    def requests_of_model(self):
        return [(asked, status) for path, asked, status in self.server.requests if path.endswith("model.safetensors")]

    def assert_complete(self):
        for name, body in CONTENTS.items():
            self.assertEqual((self.folder / name).read_bytes(), body)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), sorted(CONTENTS))

    def assert_one_error_line(self, *pieces):
        self.assertEqual(self.err.getvalue().count("\n"), 1, self.err.getvalue())
        for piece in pieces:
            self.assertIn(piece, self.err.getvalue())

    def test_everything_is_fetched_and_checked(self):
        self.assertEqual(self.run_tool(), 0, self.err)
        self.assert_complete()

    def test_right_files_are_not_fetched_again(self):
        self.run_tool()
        self.server.requests.clear()
        self.assertEqual(self.run_tool(), 0)
        self.assertEqual(self.server.requests, [])
        self.assertIn("already there", self.out.getvalue())

    def test_a_partial_file_is_resumed_where_it_stopped(self):
        self.leave_part(BIG[:1000])
        self.assertEqual(self.run_tool(), 0)
        self.assertEqual(self.requests_of_model(), [("bytes=1000-", 206)])
        self.assert_complete()

    def test_a_partial_file_is_resumed_over_a_redirect(self):
        self.server.redirect = True
        self.leave_part(BIG[:1000])
        self.assertEqual(self.run_tool(), 0)
        self.assertEqual(self.requests_of_model(), [("bytes=1000-", 302), ("bytes=1000-", 206)])
        self.assert_complete()

    def test_a_complete_part_needs_no_request(self):
        self.leave_part(BIG)
        self.assertEqual(self.run_tool(), 0)
        self.assertEqual(self.requests_of_model(), [])
        self.assert_complete()

    def test_a_server_that_ignores_range_sends_it_all_again(self):
        self.server.ranges = False
        self.leave_part(BIG[:1000])
        self.assertEqual(self.run_tool(), 0)
        self.assert_complete()

    def test_a_server_that_sends_another_part_is_refused(self):
        self.server.wrong_range = True
        self.leave_part(BIG[:1000])
        self.assertEqual(self.run_tool(), 1)
        self.assert_one_error_line("another part", "--from")
        self.assertEqual(self.part.read_bytes(), BIG[:1000])

    def test_a_connection_that_breaks_again_and_again_is_resumed_until_the_end(self):
        self.server.cut_after = 200_000  # more breaks than TRIES, each after new bytes
        self.assertEqual(self.run_tool(), 0, self.err.getvalue())
        self.assertGreater(len(self.requests_of_model()), tool.TRIES)
        self.assert_complete()

    def test_a_truncating_server_without_ranges_ends_in_one_line_that_names_the_remedy(self):
        self.server.ranges, self.server.cut_after = False, 1000
        self.assertEqual(self.run_tool(), 1)
        self.assert_one_error_line("at 1.0 kB of 1.0 MB", "run this again")
        self.assertFalse((self.folder / "model.safetensors").exists())

    def test_a_busy_server_is_asked_again(self):
        self.server.statuses = [503, 429]
        self.assertEqual(self.run_tool(), 0)
        self.assert_complete()

    def test_a_file_that_is_not_there_fails_at_once(self):
        del self.server.contents["model.safetensors"]
        self.assertEqual(self.run_tool(), 1)
        self.assert_one_error_line("404", "--from")
        self.assertEqual(len(self.requests_of_model()), 1)
        self.assertEqual((self.folder / "config.json").read_bytes(), CONTENTS["config.json"])

    def test_no_server_is_one_line_and_exit_status_1(self):
        self.server.shutdown()
        self.server.server_close()
        self.assertEqual(self.run_tool(), 1)
        self.assert_one_error_line("check the network")

    def test_a_wrong_byte_is_found_and_nothing_is_kept(self):
        self.server.contents["model.safetensors"] = BIG[:-1] + b"!"
        self.assertEqual(self.run_tool(), 1)
        self.assert_one_error_line("SHA-256")
        self.assertFalse(self.part.exists())
        self.assertFalse((self.folder / "model.safetensors").exists())

    def test_a_file_that_is_too_long_is_refused(self):
        self.server.contents["model.safetensors"] = BIG + b"more"
        self.server.ranges = False
        self.assertEqual(self.run_tool(), 1)
        self.assert_one_error_line("larger")
        self.assertFalse((self.folder / "model.safetensors").exists())

    def test_a_bad_part_is_replaced_by_the_right_file(self):
        self.leave_part(b"\0" * 5000)
        self.assertEqual(self.run_tool(), 0, self.err.getvalue())
        self.assertEqual([status for _, status in self.requests_of_model()], [206, 200])
        self.assert_complete()

    def test_a_part_that_is_too_long_is_started_over(self):
        self.leave_part(BIG + b"x")
        self.assertEqual(self.run_tool(), 0)
        self.assert_complete()

    def test_a_wrong_file_is_replaced_by_a_right_one(self):
        self.folder.mkdir(parents=True)
        (self.folder / "config.json").write_bytes(b"another")
        self.assertEqual(self.run_tool(), 0)
        self.assert_complete()

    def test_a_wrong_file_stays_when_no_right_one_can_be_had(self):
        self.folder.mkdir(parents=True)
        (self.folder / "config.json").write_bytes(b"another")
        self.server.contents["config.json"] = b"!" * len(CONTENTS["config.json"])
        self.assertEqual(self.run_tool(), 1)
        self.assertEqual((self.folder / "config.json").read_bytes(), b"another")

    def test_a_folder_that_cannot_be_made_is_one_line(self):
        self.folder.parent.mkdir(parents=True)
        self.folder.write_bytes(b"a file")
        self.assertEqual(self.run_tool(), 1)
        self.assert_one_error_line("--to")

    def test_bad_usage_is_exit_status_2(self):
        for arguments in (["--from", "file:///etc"], ["--unknown"], ["one.txt"]):
            with self.assertRaises(SystemExit) as stop, contextlib.redirect_stderr(io.StringIO()):
                tool.main(arguments)
            self.assertEqual(stop.exception.code, 2)


class PinnedFilesTest(unittest.TestCase):
    def test_the_four_files_are_pinned_by_revision_size_and_hash(self):
        self.assertEqual(sorted(tool.FILES), ["config.json", "merges.txt", "model.safetensors", "vocab.json"])
        self.assertEqual(sum(size for size, _ in tool.FILES.values()), 549604455)
        for _, digest in tool.FILES.values():
            self.assertRegex(digest, "^[0-9a-f]{64}$")
        self.assertRegex(tool.REVISION, "^[0-9a-f]{40}$")


if __name__ == "__main__":
    unittest.main()
