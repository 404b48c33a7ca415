"""Usage: picture.py PAGE PNG. The top of a page as a picture, for README.md."""
import base64, os, sys
from browser import Browser

page, png = sys.argv[1:]
b = Browser()
b.open(os.path.abspath(page), 1180, 900)
b.run("document.querySelector('#functions .open').click(); "
      "document.activeElement.blur(); scrollTo(0, 0)")
b.frame()
end = b.run("document.querySelector('#icicle').getBoundingClientRect().top")
shot = b.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
              clip={"x": 0, "y": 0, "width": 1180, "height": end, "scale": 0.75})
with open(png, "wb") as f:
    f.write(base64.b64decode(shot["data"]))
b.close()
size = os.path.getsize(png)
print(f"{png}: {size / 1000:.0f} kB")
sys.exit(size > 200000)
