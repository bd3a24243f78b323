"""Styles that QGIS finds beside a raster: ``map.qml`` for ``map.tif``."""

from xml.etree import ElementTree

_DOCTYPE = b"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
_RAMP = ("440154", "3b528b", "21918c", "5ec962", "fde725")
"""Colours from the lowest to the highest share: viridis, which is even for everyone."""


def class_style(table):
    """Style of a class map: a colour and a name for every class.

    Parameters
    ----------
    table : ClassTable

    Returns
    -------
    bytes
    """
    root, renderer = _renderer("paletted")
    palette = ElementTree.SubElement(renderer, "colorPalette")
    for code, (red, green, blue) in sorted(table.colors.items()):
        ElementTree.SubElement(
            palette,
            "paletteEntry",
            value=str(code),
            color=f"#{red:02x}{green:02x}{blue:02x}",
            alpha="255",
            label=table.names[code],
        )
    return _document(root)


def share_style():
    """Style of a band of shares between 0 and 1.

    Returns
    -------
    bytes
    """
    root, renderer = _renderer(
        "singlebandpseudocolor", classificationMin="0", classificationMax="1"
    )
    shader = ElementTree.SubElement(
        ElementTree.SubElement(renderer, "rastershader"),
        "colorrampshader",
        colorRampType="INTERPOLATED",
        classificationMode="1",
        clip="0",
        minimumValue="0",
        maximumValue="1",
    )
    for step, color in enumerate(_RAMP):
        share = step / (len(_RAMP) - 1)
        ElementTree.SubElement(
            shader,
            "item",
            value=f"{share:g}",
            label=f"{100 * share:g} %",
            color=f"#{color}",
            alpha="255",
        )
    return _document(root)


def _renderer(kind, **attributes):
    root = ElementTree.Element("qgis", version="3.0", styleCategories="Symbology")
    pipe = ElementTree.SubElement(root, "pipe")
    renderer = ElementTree.SubElement(
        pipe, "rasterrenderer", type=kind, band="1", opacity="1", alphaBand="-1", **attributes
    )
    return root, renderer


def _document(root):
    ElementTree.indent(root)
    return _DOCTYPE + ElementTree.tostring(root, encoding="utf-8") + b"\n"
