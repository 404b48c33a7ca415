"""README.md: what it shows is what the commands print, its numbers are theirs, and it is short."""
from screens import *

README = f"{SOURCE}/README.md"
text = re.sub(r"^```.*?^```", "", open(README).read(), flags=re.M | re.S)
count = len(re.findall(r"\S*\w\S*", text))
check("README has at most 900 words beside its screens", count <= 900, count)
if not can_play():
    done()
os.symlink(BUILD, f"{DIR}/build")
os.symlink(SPEX, f"{DIR}/spex")
printed = "".join(play(README))
said = re.search(r"`walk` takes (\d+)% of the time", text)
got = re.search(r"^ *([\d.]+)% .* walk$", printed, re.M)
check("what it says of walk is what report prints", said and got and
      abs(float(got[1]) - float(said[1])) < 3, (said and said[0], got and got[0]))
done()
