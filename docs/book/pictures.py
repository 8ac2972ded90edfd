"""The chapters' pictures, drawn as SVG that takes its colours from the page."""

PICTURES = {}
