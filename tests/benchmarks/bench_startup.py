"""How long ``scrapy version`` and ``scrapy list`` take with this package installed and without.

Every scrapy command loads the entry points of ``scrapy.commands``, so ``scrapy robots`` must cost the others nothing.
Both sides run with the same interpreter and the same search path; only the metadata that names the entry point is
there in one and absent in the other. They take turns, so that what else the machine does meets both.

    python tests/benchmarks/bench_startup.py [--runs 15]
"""

from __future__ import annotations

import argparse
import configparser
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("version", "list")
SETTINGS = 'BOT_NAME = "project"\nSPIDER_MODULES = ["project.spiders"]\n'
SPIDER = 'import scrapy\n\n\nclass One(scrapy.Spider):\n    name = "one"\n'


def write_project(folder: Path) -> None:
    (folder / "project" / "spiders").mkdir(parents=True)
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = project.settings\n")
    for package in ("project", "project/spiders"):
        (folder / package / "__init__.py").touch()
    (folder / "project" / "settings.py").write_text(SETTINGS)
    (folder / "project" / "spiders" / "one.py").write_text(SPIDER)


def write_metadata(folder: Path, with_package: bool) -> None:
    """A distribution of that name, with the entry points of setup.cfg or with none."""
    metadata = folder / "scrapy_scour-1.0.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: scrapy-scour\nVersion: 1.0.0\n")
    text = ""
    if with_package:
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg")
        for group, lines in config["options.entry_points"].items():
            text += f"[{group}]\n{lines.strip()}\n"
    (metadata / "entry_points.txt").write_text(text)


def cpu() -> float:
    """CPU seconds of all processes so far that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: str, project: Path, metadata: Path) -> tuple[float, float]:
    """Seconds of one process, on the clock and of the CPU; the second depends less on what else the machine does."""
    path = os.pathsep.join([str(metadata), str(ROOT)])
    began, began_cpu = time.perf_counter(), cpu()
    subprocess.run(
        [sys.executable, "-m", "scrapy", command],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began, cpu() - began_cpu


def knows_robots(project: Path, metadata: Path) -> bool:
    path = os.pathsep.join([str(metadata), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "scrapy"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    return "\n  robots " in done.stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    installed = [point for point in entry_points(group="scrapy.commands") if point.name == "robots"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder / "project")
        sides = {"without": folder / "without", "with": folder / "with"}
        for side, metadata in sides.items():
            write_metadata(metadata, side == "with")
            # An installed copy would stand behind ours, which is found first.
            assert knows_robots(folder / "project", metadata) is (side == "with"), (side, installed)
        print(f"medians of {runs} runs, seconds (quartiles)")
        for command in COMMANDS:
            times: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
            for number in range(runs):
                order = list(sides) if number % 2 else list(reversed(sides))
                for side in order:
                    times[side].append(run(command, folder / "project", sides[side]))
            for kind, what in enumerate(("clock", "CPU")):
                told, middles = [], []
                for side in sides:
                    low, middle, high = statistics.quantiles([taken[kind] for taken in times[side]], n=4)
                    told.append(f"{side} the package {middle:.3f} ({low:.3f} to {high:.3f})")
                    middles.append(middle)
                print(f"scrapy {command:<8} {what:<6} {'; '.join(told)}; ratio {middles[1] / middles[0]:.3f}")


if __name__ == "__main__":
    main()
