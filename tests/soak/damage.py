"""Damaged checkpoints, and disks that fail or are full."""

import errno
import os
import random
import resource
import shutil
import signal
from contextlib import suppress
from functools import cache

from anydepth import artifact
from anydepth.errors import StorageError
from anydepth.train.training import train
from crashing import config, orphans, remains, train_and_crash
from journeys.test_crash import failing, newest_files, newest_whole
from processes import Started
from soak.kills import in_process


@cache
def stopped(work):
    """A run with two checkpoints, stopped; and the bytes of the newest checkpoint's two files."""
    folder = work / "stopped"
    shutil.rmtree(folder, ignore_errors=True)
    train_and_crash(folder, config(), ".json renamed", 10)
    files = newest_files(folder)
    return folder, [(path, path.read_bytes()) for path in files], newest_whole(folder)[0].contents


def flipped_bits(number, tries, work):
    """A bit of the manifest or of the tensors: noticed, or between two kinds of white space."""
    folder, files, whole = stopped(work)
    chance = random.Random(number)
    for _ in range(tries):
        path, content = files[chance.random() < 0.7]
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        try:
            path.write_bytes(damaged)
            found, unusable = newest_whole(folder)
            assert unusable == 1 or found.contents == whole, "a flipped bit went unnoticed"
            assert found.contents.progress.step <= whole.progress.step
        finally:
            path.write_bytes(content)


def truncated(number, tries, work):
    """Both files cut at every kilobyte in turn, and at random bytes."""
    folder, files, whole = stopped(work)
    places = [(path, content, n) for path, content in files for n in range(0, len(content.rstrip()), 1024)]
    chance = random.Random(number)
    for place in range(number * 50, number * 50 + tries):
        if place < len(places):
            path, content, length = places[place]
        else:
            path, content = chance.choice(files)
            length = chance.randrange(len(content.rstrip()))
        try:
            path.write_bytes(content[:length])
            found, unusable = newest_whole(folder)
            assert unusable == 1, f"{path.name} cut to {length} bytes went unnoticed"
            assert found.contents.progress.step <= whole.progress.step
        finally:
            path.write_bytes(content)


KINDS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)


def failing_disk(number, tries, work):
    """Writing fails from the n-th file on: exit code 6, no half-written file, and the run goes on to the same bytes."""
    wanted, _ = in_process(work)
    for place in range(number, number + tries):
        folder, real = work / f"disk {place}", os.fsync
        shutil.rmtree(folder, ignore_errors=True)
        os.fsync = failing(KINDS[place % len(KINDS)], place // len(KINDS) * 4)
        try:
            with suppress(
                StorageError
            ):  # the error of exit code 6; there is none where more was allowed than is written
                train(config(), folder)
        finally:
            os.fsync = real
        assert list(folder.rglob(f"*{artifact.TEMPORARY}")) == []
        train(config(), folder, resume=True)
        assert remains(folder) == wanted
        assert orphans(folder) == []
        shutil.rmtree(folder)


def limited(size, folder):
    """Train while the kernel refuses files above a size."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        train(config(), folder, resume=True)
    except StorageError as error:
        os._exit(error.exit_code)


def small_disk(number, tries, work):
    """The kernel refuses files above a size: 20 sizes, from less than a record to more than a checkpoint."""
    wanted, _ = in_process(work)
    for place in range(number, number + tries):
        folder = work / f"small {place}"
        shutil.rmtree(folder, ignore_errors=True)
        process = Started(work / "told", limited, 200 + 600 * place, folder)
        _, err = process.communicate()
        assert process.returncode in (0, 6), err[-300:]
        assert list(folder.rglob(f"*{artifact.TEMPORARY}")) == []
        train(config(), folder, resume=True)
        assert remains(folder) == wanted
        shutil.rmtree(folder)
