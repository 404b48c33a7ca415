"""Turns share/cpus/*.cpu into a C array of names and texts: presets.py OUTPUT FILE..."""
import os
import sys

with open(sys.argv[1], "w") as out:
    for path in sys.argv[2:]:
        name = os.path.basename(path).removesuffix(".cpu")
        lines = open(path).read().splitlines()
        out.write(f'{{"{name}",\n')
        for line in lines:
            text = line.replace("\\", "\\\\").replace('"', '\\"')
            out.write(f' "{text}\\n"\n')
        out.write("},\n")
