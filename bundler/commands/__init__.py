"""The commands of `bundle`, a module each. They alone of the connected side print."""
