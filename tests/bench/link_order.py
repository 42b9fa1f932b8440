#!/usr/bin/env python3
"""Which functions `hta` runs and which constants it reads, in the order in which they are linked: makes src/link_order.txt.

    python3 tests/bench/link_order.py [TRACE...]

The program is large (most of it answers SQL) and what one command runs lies scattered over it: a page that is touched
brings its neighbours into memory, up to 64 KiB at once. Linked one behind the other, what `hta analyze` runs takes a third
of that, and what it reads (tables of methods, texts) a fifth. src/build.rs hands the list to the linker where that is
LLVM's; names that are not in the program are passed over, so a list that has grown old costs memory and nothing else.
`--check` says how much of the program's names it still knows.

Runs the program under callgrind on the samples in data/, and on the traces that are given; for the constants under lackey,
which is much slower, on the small ones alone. Needs cargo, valgrind.
"""

import argparse
import bisect
import collections
import concurrent.futures
import glob
import itertools
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ORDER = os.path.join(ROOT, "src", "link_order.txt")
SAMPLES = os.path.join(ROOT, "data", "samples")

# a section: address, size, the file it comes from, its name
SECTION = re.compile(r"^\s*([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)\s+\d+\s+(\S.*):\((\S+)\)$")
# of one function, and of one constant
FUNCTION = re.compile(r"\.text\.(?:unlikely\.|hot\.)?(\S+)$")
CONSTANT = re.compile(r"\.(?:rodata|data\.rel\.ro)\.\S+$")

# a constant larger than this has its pages to itself, and whole files are kept in the program
LARGEST_CONSTANT = 64 << 10

# size of the largest file that is read under lackey
LARGEST_READ = 100 << 10


def build(work):
    """The program, its functions and its constants: addresses in order, with size and name."""
    link_map = os.path.join(work, "link.map")
    argv = ["cargo", "rustc", "--release", "--bin", "hta", "--", "-C", f"link-arg=-Wl,-Map={link_map}"]
    subprocess.run(argv, cwd=ROOT, check=True)
    functions, constants = [], []
    with open(link_map, errors="replace") as lines:
        for line in lines:
            found = SECTION.match(line)
            # the linker's own are of many files
            if not found or not int(found[2], 16) or found[3] == "<internal>":
                continue
            address, size, name = int(found[1], 16), int(found[2], 16), found[4]
            function = FUNCTION.match(name)
            if function:
                functions.append((address, size, function[1]))
            elif CONSTANT.match(name) and size <= LARGEST_CONSTANT:
                constants.append((address, size, name))
    if not functions:
        sys.exit(f"cannot find functions in {link_map}: is the linker LLVM's?")
    folder = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.path.join(folder, "release", "hta"), sorted(functions), sorted(constants)


def executed(profile, program):
    """Addresses of the program that a callgrind profile has instructions of."""
    objects, inside, address, found = {}, False, 0, set()
    with open(profile) as lines:
        for line in lines:
            if line.startswith(("ob=", "cob=")):
                number, _, name = line.split("=", 1)[1].strip().partition(" ")
                if name:
                    objects[number] = os.path.realpath(name)
                if line.startswith("ob="):
                    inside = objects[number] == program
            elif line[0] in "+-*0":
                # an address, or how far it is from the one before
                word = line.split(None, 1)[0]
                if word.startswith("0x"):
                    address = int(word, 16)
                elif word != "*":
                    address += int(word)
                if inside:
                    found.add(address)
    return found


def ranked(given, folder):
    """Links to the files with a rank in each name, which a partial asks for."""
    os.mkdir(folder)
    files = sorted(glob.glob(os.path.join(given, "*"))) if os.path.isdir(given) else [given]
    links = []
    for file in (f for f in files if ".json" in f):
        links.append(os.path.join(folder, f"rank_{len(links)}.json" + (".gz" if file.endswith(".gz") else "")))
        os.symlink(os.path.abspath(file), links[-1])
    return links


def jobs(traces, work):
    """What is run: the long commands on all samples, many ranks and one, one thread and two. Each is also run without its
    later parts, so that what is needed while a rank is in memory counts most and comes first. The commands of a job follow
    each other, its folders are its own."""
    ranks = sorted(glob.glob(os.path.join(SAMPLES, "gpu_ddp8", "*")))
    samples = sorted(f.path for f in os.scandir(SAMPLES) if f.is_dir())
    analyze = ["analyze", "--force", "--threads"]
    names = (os.path.join(work, f"result{i}") for i in itertools.count())
    # the long ones first
    for i, given in enumerate([*traces, *samples]):
        yield [[*analyze, "1", "-o", next(names), "--partial", "--no-events", *ranked(given, os.path.join(work, f"ranks{i}"))]]
        yield [[*analyze, "1", "-o", next(names), "--no-html", "--no-events", given]]
        yield [[*analyze, "1", "-o", next(names), given]]
    yield [[*analyze, "2", "-o", next(names), *ranks]]
    yield [[*analyze, "2", "-o", next(names), traces[0] if traces else ranks[0]]]
    part = next(names)
    yield [[*analyze, "2", "-o", part, "--partial", *ranks], ["merge", part, "-o", next(names), "--force"]]
    yield [["stragglers", *ranks]]


def ended(code, command, said):
    """Goes on where the command did what it should."""
    # 1: something in the input could not be used
    if code not in (0, 1):
        sys.exit(f"hta {' '.join(command)} ended with {code}: {said}")


def ran(program, starts, work, job):
    """How many of the job's commands run each function, by index."""
    runs = collections.Counter()
    for command in job:
        with tempfile.NamedTemporaryFile(dir=work) as profile:
            callgrind = ["valgrind", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={profile.name}"]
            argv = [*callgrind, program, *command]
            end = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            ended(end.returncode, command, end.stderr[-2000:])
            at = {bisect.bisect_right(starts, address) - 1 for address in executed(profile.name, program)}
        runs.update(i for i in at if i >= 0)
        print(f"{len(at)} functions: hta {' '.join(command)}", file=sys.stderr)
    return runs


def read(program, constants, command):
    """Constants that a command reads, by index."""
    # it writes the addresses with its messages
    out, into = os.pipe()
    argv = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-fd={into}", program, *command]
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[into])
    os.close(into)
    last = f"{constants[-1][0] + constants[-1][1]:08x}".encode()
    accessed = set()
    with open(out, "rb", buffering=1 << 20) as lines:
        # ` L 01a2b3c4,8`; instructions begin with `I`
        for line in lines:
            if line[:1] == b" " and line[11:12] == b"," and line[3:11] <= last:
                accessed.add(line[3:11] + line[12:].strip().rjust(4, b"0"))
    ended(child.wait(), command, "under lackey")
    starts = [c[0] for c in constants]
    found = set()
    for access in accessed:
        address, size = int(access[:8], 16), int(access[8:])
        at = bisect.bisect_right(starts, address + size - 1) - 1
        # a wide access may reach over several
        while at >= 0 and constants[at][0] + constants[at][1] > address:
            found.add(at)
            at -= 1
    print(f"{len(found)} constants: hta {' '.join(command)}", file=sys.stderr)
    return found


def readers(traces, work):
    """Commands whose constants are kept: first those that end with the ranks, then one to the end of the run."""
    samples = sorted(glob.glob(os.path.join(SAMPLES, "*", "*.json.gz")))
    small = [f for f in [*samples, *traces] if os.path.isfile(f) and os.path.getsize(f) <= LARGEST_READ]
    folders = [list(of) for _, of in itertools.groupby(small, os.path.dirname)]
    analyze = ["analyze", "--force", "--threads", "1", "-o"]
    commands = [[*analyze, os.path.join(work, f"read{i}"), "--no-html", "--no-events", of[0]] for i, of in enumerate(folders)]
    return commands, [[*analyze, os.path.join(work, "read"), *max(folders, key=len)[:2]]]


def grouped(names):
    """Lines of the list: those that differ behind the last dot alone are one, with the start they share first."""
    groups = {}
    for name in names:
        start, _, rest = name.rpartition(".")
        groups.setdefault(start if rest.isdigit() else name, []).append(rest if rest.isdigit() else None)
    for start, rests in groups.items():
        yield " ".join([start, *(r for r in rests if r is not None)])


def names_of(line):
    """The names that a line of the list stands for."""
    start, *rests = line.split(" ")
    return [f"{start}.{rest}" for rest in rests] or [start]


def check(functions, constants):
    """How much of the list is in the program; 1 where too little is."""
    with open(ORDER) as lines:
        listed = [name for line in lines.read().splitlines() for name in names_of(line)]
    code = 0
    for what, all_, is_constant in (("functions", functions, False), ("constants", constants, True)):
        there, wanted = {name for _, _, name in all_}, [name for name in listed if name.startswith(".") == is_constant]
        known = sum(name in there for name in wanted)
        print(f"{known} of {len(wanted)} {what} of the list are in the program")
        code |= known < 0.9 * len(wanted)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="*", help="traces of other kinds than the samples")
    parser.add_argument("--check", action="store_true", help="count how much of the list is in the program, and end")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        program, functions, constants = build(work)
        program = os.path.realpath(program)
        if args.check:
            sys.exit(check(functions, constants))
        starts = [f[0] for f in functions]
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            commands = readers(args.trace, work)
            early, late = [pool.map(read, *zip(*((program, constants, c) for c in of))) for of in commands]
            early, late = set().union(*early), set().union(*late)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            each = pool.map(lambda job: ran(program, starts, work, job), list(jobs(args.trace, work)))
            runs = sum(each, collections.Counter())
    # what most runs need stands together; by name, so that a new list differs little from the old one
    order = sorted((i for i in runs if runs[i] > 1), key=lambda i: (-runs[i], functions[i][2]))
    with open(ORDER, "w") as out:
        out.writelines(functions[i][2] + "\n" for i in order)
        for part in (early, late - early):
            out.writelines(line + "\n" for line in grouped(sorted({constants[i][2] for i in part})))
    for what, all_, listed in (("functions", functions, order), ("constants", constants, early | late)):
        print(f"{len(listed)} {what}, {sum(all_[i][1] for i in listed) / 1e6:.2f} MB: {ORDER}")


if __name__ == "__main__":
    main()
