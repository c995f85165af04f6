"""Code that protoc generates from ``bookie.proto``, never edited by hand; used only in the wire."""
