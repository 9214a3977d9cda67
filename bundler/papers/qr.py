"""QR codes as inline SVG. segno draws them, and nothing else of it is used."""

from io import BytesIO

import segno

#: Level M (ISO/IEC 18004) is read with 15 % of the symbol dirty or creased.
_LEVEL = "m"


def svg(text: str) -> str:
    """A QR code with its quiet zone."""
    code = segno.make_qr(text, error=_LEVEL, boost_error=False)
    out = BytesIO()
    code.save(
        out,
        kind="svg",
        xmldecl=False,
        svgns=False,
        omitsize=True,
        nl=False,
        svgclass="qr",
        lineclass=None,
        light="#fff",
        title=text,
    )
    return out.getvalue().decode()
