"""The timeline of a diagnosed run as a trace that Perfetto, chrome://tracing and speedscope open."""
