"""What of an environment is packed: patterns of paths, matched by fnmatch (`*` crosses `/`)."""

#: Never packed. Cached bytecode holds build paths and is rebuilt anyway; a CACHEDIR.TAG would make
#: `tar --exclude-caches` drop the whole environment; terminfo's upper-case folders differ from
#: others only by case and describe terminals nobody connects to a server with.
EXCLUDE = (
    "*/__pycache__/*",
    "*/__pycache__",
    "CACHEDIR.TAG",
    "conda-meta/history",
    "share/terminfo/[A-Z]/*",
)

#: Besides, what the small runtime can do without: it runs bundlectl and nothing else.
RUNTIME_EXCLUDE = (
    "include/*",
    "*.a",
    "*.h",
    "*.pyx",
    "lib/pkgconfig/*",
    "lib/cmake/*",
    "lib/tcl*",
    "lib/tk*",
    "lib/libtcl*",
    "lib/libtk*",
    "lib/python*/config-*",
    "lib/python*/test/*",
    "lib/python*/tests/*",
    "lib/python*/site-packages/*/tests/*",
    "lib/python*/site-packages/zstandard/_cffi.*",  # its slower twin for PyPy
    "lib/python*/ensurepip/*",
    "lib/python*/idlelib/*",
    "lib/python*/lib2to3/*",
    "lib/python*/pydoc_data/*",
    "lib/python*/tkinter/*",
    "lib/python*/turtle*",
    "share/doc/*",
    "share/info/*",
    "share/man/*",
    "share/terminfo/*",
)

#: Folder with links to the only libraries that go on the server's LD_LIBRARY_PATH. All of lib/
#: would push the environment's libssl and libtinfo on the host tools that the server starts.
SERVER_LIBS = "server-libs"
