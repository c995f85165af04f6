"""Code that protoc makes of ``bookie.proto``, never edited by hand; no other type goes further."""
