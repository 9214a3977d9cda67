"""The isolated side: everything that `bundlectl` does. Runs from the bundle's own runtime."""
