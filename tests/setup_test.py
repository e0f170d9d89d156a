"""Tests of tools/setup.sh: what it installs, what it says, when it stops. Every command that it calls is faked."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parent.parent / "tools" / "setup.sh"
REAL_COMMANDS = "bash sh env cat dirname mkdir rm mv grep sed sort head tail cut touch chmod".split()
LIBRARIES = "libgtest-dev libcli11-dev nlohmann-json3-dev libpcre2-dev ccache"

PYTHON = """#!/bin/sh
# Fake python3: `-m pip install ... --target FOLDER ... PACKAGE` writes FOLDER/torch/share/cmake/Torch/TorchConfig.cmake.
echo "pip $*" >>"$FAKES/calls"
[ -e "$FAKES/no_pip" ] && exit 1
case "$*" in *--version*) exit 0 ;; esac
[ -e "$FAKES/pip_fails" ] && { cat "$FAKES/pip_fails"; exit 1; }
case "$*" in *--python-version*) ;; *) [ -e "$FAKES/no_own_wheel" ] && { echo "ERROR: No matching distribution found"; exit 1; } ;; esac
while [ $# -gt 0 ]; do
  if [ "$1" = --target ]; then mkdir -p "$2/torch/share/cmake/Torch"; touch "$2/torch/share/cmake/Torch/TorchConfig.cmake"; fi
  shift
done
"""

# `apt-get install` makes the commands and packages appear; apt-cache knows what is not in $FAKES/not_in_apt.
APT_GET = """#!/bin/sh
echo "apt-get $*" >>"$FAKES/calls"
[ -e "$FAKES/apt_fails" ] && { cat "$FAKES/apt_fails"; exit 100; }
case "$*" in *" install "*) ;; *) exit 0 ;; esac
for word; do
  echo "$word installed" >>"$FAKES/installed"
  case $word in
    cmake) printf '#!/bin/sh\\necho "cmake version 3.25.1"\\n' >"$FAKES/bin/cmake"; chmod +x "$FAKES/bin/cmake" ;;
    ninja-build) printf '#!/bin/sh\\n' >"$FAKES/bin/ninja"; chmod +x "$FAKES/bin/ninja" ;;
    g++) printf '#!/bin/sh\\n' >"$FAKES/bin/c++"; chmod +x "$FAKES/bin/c++" ;;
    python3-pip) rm -f "$FAKES/no_pip" ;;
  esac
done
"""


class SetupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.fakes = Path(folder.name).resolve() / "fakes"
        self.checkout = Path(folder.name).resolve() / "a checkout"
        self.deps = self.checkout / ".deps"
        (self.fakes / "bin").mkdir(parents=True)
        (self.checkout / "tools").mkdir(parents=True)
        shutil.copy(SETUP, self.checkout / "tools")
        for command in REAL_COMMANDS:
            (self.fakes / "bin" / command).symlink_to(shutil.which(command))
        self.fake("python3", PYTHON)
        self.fake("cmake", '#!/bin/sh\necho "cmake version 3.25.1"\n')
        self.fake("ninja")
        self.fake("c++")
        self.fake("uname", "#!/bin/sh\necho Linux\n")
        self.user(0)
        self.debian()

    def fake(self, name, text="#!/bin/sh\n"):
        path = self.fakes / "bin" / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def without(self, *names):
        for name in names:
            (self.fakes / "bin" / name).unlink()

    def user(self, number):
        self.fake("id", f"#!/bin/sh\necho {number}\n")

    def debian(self):
        self.fake("apt-get", APT_GET)
        self.fake("apt-cache", '#!/bin/sh\n! grep -qx "$2" "$FAKES/not_in_apt" 2>/dev/null\n')
        self.fake("dpkg-query", '#!/bin/sh\ncat "$FAKES/installed"\n')
        self.write("installed", "".join(f"{name} installed\n" for name in LIBRARIES.split()))

    def other_system(self, *commands):
        self.without("apt-get", "apt-cache", "dpkg-query")
        for command in commands:
            self.fake(command)

    def write(self, name, text=""):
        (self.fakes / name).write_text(text)

    def run_setup(self, *arguments, **environment):
        self.write("calls")
        paths = {"PATH": str(self.fakes / "bin"), "FAKES": str(self.fakes), "HOME": str(self.fakes)}
        paths["PYTHON"] = "python3"  # not /usr/bin/python3, the second choice
        script = self.checkout / "tools" / "setup.sh"
        result = subprocess.run(
            [shutil.which("bash"), str(script), *arguments],
            env=paths | environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )
        self.out, self.err = result.stdout, result.stderr
        return result.returncode

    def calls(self, first):
        return [line for line in (self.fakes / "calls").read_text().splitlines() if line.startswith(first)]

    def test_the_second_run_calls_nothing_and_says_one_line(self):
        self.assertEqual(self.run_setup(), 0, self.err)
        self.assertEqual(self.run_setup(), 0)
        self.assertEqual((self.fakes / "calls").read_text(), "")
        self.assertEqual(self.out.count("\n"), 1)
        self.assertEqual(self.err, "")

    def test_the_folder_of_torchconfig_is_written_once(self):
        self.run_setup()
        chosen = self.deps / "torch_dir"
        self.assertEqual(chosen.read_text(), f"{self.deps}/libtorch/torch/share/cmake/Torch\n")
        os.utime(chosen, (1, 1))
        self.run_setup()
        self.assertEqual(chosen.stat().st_mtime, 1)

    def test_on_linux_only_the_cpu_build_is_asked_for(self):
        self.assertEqual(self.run_setup(), 0)
        torch = [call for call in self.calls("pip") if "torch==" in call]
        self.assertEqual(len(torch), 1)
        self.assertTrue(torch[0].endswith("torch==2.13.0+cpu"), torch)
        self.assertIn("--no-deps", torch[0])
        self.assertIn("--extra-index-url https://download.pytorch.org/whl/cpu", torch[0])

    def test_on_macos_the_plain_build_is_asked_for(self):
        self.other_system("brew")
        self.fake("uname", "#!/bin/sh\necho Darwin\n")
        self.assertEqual(self.run_setup(), 0, self.err)
        self.assertTrue(any(call.endswith("torch==2.13.0") for call in self.calls("pip")))

    def test_a_wheel_of_another_python_will_do(self):
        self.write("no_own_wheel")
        (self.deps / "python").mkdir(parents=True)
        (self.deps / "python" / ".installed").write_text("cogapp==3.6.0\n")
        self.assertEqual(self.run_setup(), 0, self.err)
        self.assertIn("--python-version 3.12", self.calls("pip")[-1])
        self.assertTrue(self.calls("pip")[-1].endswith("+cpu"))

    def test_an_older_libtorch_is_replaced(self):
        self.run_setup()
        (self.deps / "libtorch" / ".installed").write_text("torch==2.12.0+cpu\n")
        self.assertEqual(self.run_setup(), 0)
        self.assertEqual((self.deps / "libtorch" / ".installed").read_text(), "torch==2.13.0+cpu\n")

    def test_an_interrupted_installation_is_not_taken_for_finished(self):
        (self.deps / "libtorch.partial" / "torch").mkdir(parents=True)
        self.assertEqual(self.run_setup(), 0)
        self.assertTrue(any("torch==" in call for call in self.calls("pip")))
        self.assertFalse((self.deps / "libtorch.partial").exists())

    def test_a_failed_download_names_fault_remedy_and_log(self):
        self.run_setup()
        shutil.rmtree(self.deps / "libtorch")
        self.write("pip_fails", "WARNING: Retrying (Retry(total=0))\nERROR: Could not find a version\n")
        self.assertEqual(self.run_setup(), 1)
        for piece in ("network failed", "Could not find a version", "CMAKE_PREFIX_PATH=", ".deps/setup.log"):
            self.assertIn(piece, self.err)
        self.assertIn("Retry(total=0)", (self.deps / "setup.log").read_text())
        self.assertFalse((self.deps / "libtorch").exists() or (self.deps / "libtorch.partial").exists())

    def test_a_named_libtorch_is_taken_and_nothing_is_fetched(self):
        place = self.fakes / "my torch" / "share" / "cmake" / "Torch"
        place.mkdir(parents=True)
        (place / "TorchConfig.cmake").touch()
        for environment in (
            {"CMAKE_PREFIX_PATH": f"/nowhere:{self.fakes}/my torch"},
            {"Torch_DIR": str(place)},
            {"Torch_DIR": str(self.fakes / "my torch")},
        ):
            self.assertEqual(self.run_setup(**environment), 0, self.err)
            self.assertEqual((self.deps / "torch_dir").read_text(), f"{place}\n")
            self.assertFalse(any("torch==" in call for call in self.calls("pip")))

    def test_a_torch_dir_without_libtorch_stops(self):
        self.assertEqual(self.run_setup(Torch_DIR="/nowhere"), 1)
        self.assertIn("Torch_DIR is /nowhere", self.err)

    def test_a_prefix_path_without_libtorch_is_said_and_the_wheel_taken(self):
        self.assertEqual(self.run_setup(CMAKE_PREFIX_PATH="/nowhere"), 0)
        self.assertIn("no LibTorch in CMAKE_PREFIX_PATH", self.out)
        self.assertTrue((self.deps / "libtorch").exists())

    def test_root_on_debian_installs_exactly_what_is_missing(self):
        self.without("cmake", "ninja", "c++")
        self.write("no_pip")
        self.write("installed", "libgtest-dev installed\nccache installed\n")
        self.assertEqual(self.run_setup(), 0, self.err)
        update, install = self.calls("apt-get")
        self.assertIn("update", update)
        packages = install.split("--no-install-recommends ")[1].split()
        wanted = "cmake g++ libcli11-dev libpcre2-dev ninja-build nlohmann-json3-dev python3-pip".split()
        self.assertEqual(sorted(packages), wanted)

    def test_a_user_with_sudo_installs_through_it(self):
        self.user(1000)
        self.fake("sudo", '#!/bin/sh\necho "sudo $*" >>"$FAKES/calls"\n[ "$1" = -n ] && shift\n"$@"\n')
        self.fake("true")
        self.without("ninja")
        self.assertEqual(self.run_setup(), 0, self.err)
        self.assertTrue(any("apt-get" in call and "ninja-build" in call for call in self.calls("sudo")))

    def test_a_user_without_sudo_gets_the_line_to_type(self):
        self.user(1000)
        self.without("cmake", "ninja")
        self.write("installed", "libgtest-dev installed\nlibcli11-dev installed\nccache installed\n")
        self.assertEqual(self.run_setup(), 1)
        line = "apt-get update && apt-get install -y cmake ninja-build nlohmann-json3-dev libpcre2-dev"
        self.assertEqual(self.err.splitlines()[1].strip(), line)
        self.assertEqual(self.calls("apt-get"), [])

    def test_sudo_that_would_ask_without_a_terminal_counts_as_none(self):
        self.user(1000)
        self.fake("sudo", "#!/bin/sh\nexit 1\n")
        self.without("cmake")
        self.assertEqual(self.run_setup(), 1)
        self.assertIn("apt-get install -y cmake", self.err)
        self.assertNotIn("installing", self.out)

    def test_libraries_alone_stop_nobody_and_are_named_once(self):
        self.user(1000)
        self.write("installed", "")
        self.assertEqual(self.run_setup(), 0, self.err)
        self.assertIn(f"without {LIBRARIES}: CMake fetches", self.out)
        self.run_setup()
        self.assertEqual(self.out.count("\n"), 1)

    def test_a_package_that_debian_does_not_have_is_asked_for_once(self):
        self.write("installed", "libgtest-dev installed\n")
        self.write("not_in_apt", "libcli11-dev\n")
        self.assertEqual(self.run_setup(), 0, self.err)
        self.assertNotIn("libcli11-dev", self.calls("apt-get")[1])
        self.run_setup()
        self.assertEqual(self.calls("apt-get"), [])

    def test_an_apt_failure_stops_only_where_something_needed_is_missing(self):
        self.write("apt_fails", "E: Could not get lock\n")
        self.write("installed", "")
        self.assertEqual(self.run_setup(), 0, self.err)
        self.assertIn("Could not get lock", self.out)
        self.without("cmake")
        self.assertEqual(self.run_setup(), 1)
        self.assertIn("Could not get lock", self.err)

    def test_other_systems_get_their_own_line_to_type(self):
        for manager, line in (("dnf", "sudo dnf install -y"), ("brew", "brew install cmake ninja")):
            with self.subTest(manager):
                self.setUp()
                self.other_system(manager)
                self.without("cmake")
                self.assertEqual(self.run_setup(), 1)
                self.assertIn("missing: cmake.", self.err)
                self.assertIn(line, self.err)

    def test_an_unknown_system_is_told_what_is_missing(self):
        self.other_system()
        self.without("cmake", "ninja")
        self.write("no_pip")
        self.assertEqual(self.run_setup(), 1)
        self.assertIn("missing: cmake ninja pip.", self.err)

    def test_an_unknown_system_that_has_everything_goes_on(self):
        self.other_system()
        self.assertEqual(self.run_setup(), 0, self.err)

    def test_an_old_cmake_is_refused(self):
        self.fake("cmake", '#!/bin/sh\necho "cmake version 3.16.3"\n')
        self.assertEqual(self.run_setup(), 1)
        self.assertIn("3.22 or newer", self.err)

    def test_a_list_of_packages_is_installed_once_and_again_when_it_changes(self):
        packages = self.checkout / "tools" / "book" / "site" / "requirements.txt"
        packages.parent.mkdir(parents=True)
        for text, calls in (("sphinx==1\n", 1), ("sphinx==1\n", 0), ("sphinx==2\nfuro==1\n", 1)):
            packages.write_text(text)
            self.assertEqual(self.run_setup("site"), 0, self.err)
            installs = [call for call in self.calls("pip") if "--target" in call]
            self.assertEqual(len(installs), calls)
            self.assertTrue((self.deps / "site" / ".installed").read_text().rstrip().endswith(text.rstrip()))
        self.assertTrue(installs[0].endswith("--requirement=tools/book/site/requirements.txt"), installs)
        self.assertFalse((self.deps / "libtorch").exists())

    def test_a_list_of_packages_that_cannot_be_installed_is_named(self):
        packages = self.checkout / "tools" / "book" / "pictures" / "requirements.txt"
        packages.parent.mkdir(parents=True)
        packages.write_text("matplotlib==1\n")
        self.write("pip_fails", "ERROR: Could not find a version\n")
        self.assertEqual(self.run_setup("pictures"), 1)
        self.assertIn("tools/book/pictures/requirements.txt could not be installed", self.err)
        self.assertFalse((self.deps / "pictures").exists())

    def test_an_unknown_argument_is_refused(self):
        self.assertEqual(self.run_setup("everything"), 1)
        self.assertIn("everything", self.err)


if __name__ == "__main__":
    unittest.main()
