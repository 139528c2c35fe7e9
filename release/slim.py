"""Makes the packages of an image small, and quick to import.

    python slim.py SITE [--standard-library FOLDER]
    python slim.py --base

Run in the image by its own Python (release/Containerfile, localcluster/pods/images.py), so it imports the
standard library alone. SITE is the folder of the packages. With `--base`
it makes the base small instead (`remove_from_base`): this Python, and what is installed beside it.

| step                     | what                                                                         |
|--------------------------|------------------------------------------------------------------------------|
| `remove_unused`          | distributions that only other parts of `kubernetes` import                   |
| `remove_parts`           | tests, headers, type stubs and tools of packages that stay                   |
| `strip_libraries`        | of compiled modules what is not loaded: symbols and what debuggers read      |
| `keep_kubeconfig_reader` | of `kubernetes` what reads kubeconfigs: all that the server uses of it       |
| `compile_packages`       | bytecode of all that is left                                                 |
| `compile_imported`       | bytecode of what the server imports of the standard library, in FOLDER; to   |
|                          | be copied to `/`. The usual Python images have none                          |

The bytecode is not checked against the source (`unchecked-hash`): the files of an image never change, and a
builder that sets all times to one (for reproducible images) makes checked bytecode useless.

tests/release/test_slim.py runs everything that the server imports, and reads kubeconfigs, with what is left.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import pkgutil
import py_compile
import re
import shutil
import struct
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

#: Needed by `kubernetes.aio`, by the models and the streams, which go; by nothing else.
UNUSED = frozenset(
    {
        *("aiohappyeyeballs", "aiohttp", "aiohttp-retry", "aiosignal", "attrs", "frozenlist", "multidict"),
        *("propcache", "yarl"),
        *("annotated-types", "pydantic", "pydantic-core", "python-dateutil", "typing-inspection"),
        *("durationpy", "websocket-client"),
        "pycparser",  # for cffi's compiler, which goes too
    }
)
#: Below SITE. numpy imports none of them by itself, and we use none of them.
UNUSED_PARTS = (
    "numpy/**/tests",
    "numpy/**/*.pyi",
    "numpy/**/*.a",
    "numpy/_core/include",
    "numpy/_core/_simd.*.so",  # for its tests
    "numpy/_core/_*_tests.*.so",
    "numpy/distutils",
    "numpy/f2py",
    "numpy/fft",
    "numpy/polynomial",
    "numpy/random",
    "numpy/testing",
    "certifi/tests",
    "cffi",  # cryptography needs the module _cffi_backend alone, which is beside it
    "msgspec/**/*.pyi",
)
PRODUCT = ("queues", "cluster", "extender", "webhooks", "controller", "certs", "server", "kubectl_queue")
#: What `cluster.api.configuration` imports of the package `kubernetes`.
KUBECONFIG_READER = ("kubernetes.config", "kubernetes.client")
#: Of the standard library: what installs packages, draws windows and teaches. `pydoc_data` is for `help()`.
UNUSED_LIBRARY = ("ensurepip", "idlelib", "lib2to3", "pydoc_data", "tkinter", "turtle.py", "turtledemo")
#: Beside the program `python`, in the usual Python images.
UNUSED_PROGRAMS = ("2to3*", "idle*", "pip*", "pydoc*", "python*-config", "wheel")
KUBERNETES = '''"""Changed by release/slim.py of Sluice: only what reads kubeconfigs is left."""
'''
KUBERNETES_CLIENT = f'''{KUBERNETES}
from kubernetes.client.configuration import Configuration


class ApiClient:
    """For `kubernetes.config`, which imports it. Sluice makes its requests without it."""

    def __init__(self, *_args, **_kwargs):
        raise NotImplementedError("this image has no kubernetes.client.ApiClient")
'''
UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="slim.py", description="Make the packages of an image small.")
    parser.add_argument("site", type=Path, nargs="?", metavar="SITE", help="the folder of the packages")
    parser.add_argument("--base", action="store_true", help="remove parts of this Python instead")
    parser.add_argument("--standard-library", type=Path, metavar="FOLDER", help="where its bytecode goes")
    options = parser.parse_args(arguments)
    if options.base == bool(options.site):
        parser.error("either SITE or --base")
    if options.base:
        remove_from_base({name: Path(path) for name, path in sysconfig.get_paths().items()})
        return 0
    remove_unused(options.site)
    remove_parts(options.site)
    strip_libraries(options.site)
    keep_kubeconfig_reader(options.site)
    compile_packages(options.site)
    if options.standard_library:
        compile_imported(options.standard_library)
    return 0


def remove_unused(site: Path) -> None:
    """Remove the distributions named in `UNUSED`, with their metadata."""
    for distribution in list(metadata.distributions(path=[str(site)])):
        if normalized(distribution.metadata["Name"]) in UNUSED:
            files = [site / file for file in distribution.files or () if ".." not in file.parts]
            for file in files:
                file.unlink(missing_ok=True)
            _remove_empty({file.parent for file in files}, above=site)


def remove_parts(site: Path) -> None:
    for pattern in UNUSED_PARTS:
        for path in list(site.glob(pattern)):
            _remove(path)


def strip_libraries(site: Path) -> None:
    """Cut each compiled module behind the last part that is loaded, as `strip` does, which the base has not.

    There lie the symbols for debuggers, four fifths of some modules, and the table of the sections, which
    only linkers and debuggers read. The dynamic linker reads the program headers, which stay as they are.
    Files are replaced, not written to: an installer may have linked them to those in its cache.
    """
    for path in [*site.glob("**/*.so"), *site.glob("**/*.so.*")]:
        content = path.read_bytes()
        stripped = _stripped(content)
        if len(stripped) < len(content) and not path.is_symlink():
            temporary = path.with_name(f".{path.name}.stripped")
            temporary.write_bytes(stripped)
            shutil.copymode(path, temporary)
            temporary.replace(path)


def _stripped(library: bytes) -> bytes:
    """Unchanged unless it is ELF with 64 bits, little-endian, and its table of sections is at its end."""
    if library[:6] != b"\x7fELF\x02\x01":
        return library
    programs, sections = struct.unpack_from("<QQ", library, 0x20)  # e_phoff, e_shoff
    entry, count = struct.unpack_from("<HH", library, 0x36)  # e_phentsize, e_phnum
    end = programs + entry * count
    for number in range(count):  # p_offset and p_filesz of each
        offset, size = struct.unpack_from("<8xQ16xQ", library, programs + entry * number)
        end = max(end, offset + size)
    if sections < end:
        return library
    result = bytearray(library[:end])
    struct.pack_into("<Q", result, 0x28, 0)  # e_shoff
    struct.pack_into("<HH", result, 0x3C, 0, 0)  # e_shnum, e_shstrndx
    return bytes(result)


def keep_kubeconfig_reader(site: Path) -> None:
    """Keep `kubernetes.config` and `kubernetes.client.configuration`, below packages that import no more.

    Files are replaced, not written to: an installer may have linked them to those in its cache.
    """
    package = site / "kubernetes"
    for path in list(package.iterdir()):
        if path.name not in {"config", "client"}:
            _remove(path)
    for path in list((package / "client").iterdir()):
        if path.name != "configuration.py":
            _remove(path)
    for path in list((package / "config").glob("*_test.py")):
        _remove(path)
    (package / "__init__.py").write_text(KUBERNETES)
    (package / "client" / "__init__.py").write_text(KUBERNETES_CLIENT)


def remove_from_base(paths: Mapping[str, Path]) -> None:
    """`paths`: of the base's Python, by their names in `sysconfig`. Its packages are pip and its like."""
    unused = [paths["stdlib"] / name for name in UNUSED_LIBRARY]
    unused += [script for pattern in UNUSED_PROGRAMS for script in paths["scripts"].glob(pattern)]
    for path in (*unused, *paths["purelib"].glob("*"), paths["include"]):
        _remove(path)


def compile_packages(site: Path) -> None:
    """Some packages have files for other Pythons: what cannot be compiled is left as it is."""
    compileall.compile_dir(str(site), quiet=2, invalidation_mode=UNCHECKED)


def compile_imported(folder: Path) -> None:
    """Import all of the product, and write the bytecode of each module outside the packages to `folder`."""
    for name in (*product_modules(), *KUBECONFIG_READER):
        importlib.import_module(name)
    for module in [each for each in sys.modules.values() if each is not sys.modules["__main__"]]:
        source = getattr(module, "__file__", None) or ""
        is_package = {"site-packages", "dist-packages"} & {*Path(source).parts}
        if source.endswith(".py") and not is_package:
            target = folder / Path(cache_from_source(source)).relative_to("/")
            py_compile.compile(source, cfile=str(target), doraise=True, invalidation_mode=UNCHECKED)


def product_modules() -> Iterator[str]:
    for name in PRODUCT:
        yield name
        package = importlib.import_module(name)
        for each in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not each.name.endswith("__main__"):
                yield each.name


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_empty(folders: set[Path], *, above: Path) -> None:
    """Remove these folders, and those above them, as far as nothing but bytecode is left in them."""
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        current = folder
        while above in current.parents and current.exists():
            if [entry for entry in current.iterdir() if entry.name != "__pycache__"]:
                break
            shutil.rmtree(current)
            current = current.parent


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
