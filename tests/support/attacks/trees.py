"""The listing of a tree: everything fits, and it leads where it must not."""

from typing import Any

from tests.support.attacks.dismantled import Dismantled
from tests.support.attacks.table import attack
from tests.support.simulator import ENVIRONMENT

#: A way to the top of the tree that looks three folders deep.
UP = "a/b/c/top"


class InTheTree(Dismantled):
    """The listing of a tree: everything fits, and it leads where it must not."""

    def _tree(self, **changes: bytes | str | None) -> None:
        self.list_environment({**ENVIRONMENT, **changes})
        self.reseal()

    @attack("absolute path")
    def a_tree_with_an_absolute_path(self) -> None:
        self._tree(**{str(self.root / "outside/planted"): b"x"})

    @attack("'..'")
    def a_tree_with_a_path_above(self) -> None:
        self._tree(**{"lib/../../../../../outside/planted": b"x"})

    @attack("is not relative")
    def a_tree_with_an_absolute_link(self) -> None:
        self._tree(**{"lib/link": "/etc/passwd"})

    @attack("leaves the tree")
    def a_tree_with_a_link_above(self) -> None:
        self._tree(**{"lib/link": "../../runtime/bin/python"})

    @attack("leaves the tree")
    def a_tree_with_links_that_lead_away_together(self) -> None:
        """Each stays inside by its text; the second goes up from where the first has led."""
        self._tree(
            **{"a": None, "a/b": None, "a/b/c": None, "a/b/c/top": "../../..", "out": UP + "/.."}
        )

    @attack("lies below")
    def a_file_through_a_link(self) -> None:
        self._tree(**{"lib/link": "..", "lib/link/planted": b"x"})

    @attack("env")
    def a_document_through_links(self) -> None:
        """A member that would be written where links of the environment lead."""
        self.list_environment(
            {
                **ENVIRONMENT,
                "a": None,
                "a/b": None,
                "a/b/c": None,
                "a/b/c/top": "../../..",
                "out": UP + "/../../../..",
            }
        )
        self.put("env/out/outside/precious", b"planted")
        self.reseal()

    @attack("lies below")
    def a_file_below_a_file(self) -> None:
        self._tree(**{"lib/empty/planted": b"x"})

    @attack("only by case")
    def a_tree_with_twins(self) -> None:
        self._tree(**{"LIB": None, "LIB/Empty": b"x"})

    @attack("listed twice")
    def a_tree_with_a_name_twice(self) -> None:
        self.manifest["environment"].append(self.entry("lib/empty"))
        self.reseal()

    @attack("unknown kind")
    def a_tree_with_a_device(self) -> None:
        self.manifest["environment"].append({"path": "null", "kind": "device"})
        self.reseal()

    @attack("share/deep/er")
    def a_file_without_its_folder(self) -> None:
        self._tree(**{"share/deep/er": b"x"})

    @attack("lib/early")
    def a_file_before_its_folder(self) -> None:
        self.list_environment({"lib/early": b"x", **ENVIRONMENT})
        self.reseal()

    @attack("lib/link")
    def a_link_with_a_size(self) -> None:
        self.manifest["environment"].append(
            {"path": "lib/link", "kind": "link", "target": "empty", "size": 512}
        )
        self.reseal()

    @attack("lib/empty")
    def a_size_beyond_any_disk_in_the_tree(self) -> None:
        self._listed_entry("lib/empty")["size"] = 10**40
        self.reseal()

    @attack("lib/empty")
    def a_negative_size_in_the_tree(self) -> None:
        self._listed_entry("lib/empty")["size"] = -1
        self.reseal()

    @attack("lib/empty")
    def a_file_without_a_digest(self) -> None:
        del self._listed_entry("lib/empty")["sha256"]
        self.reseal()

    @attack("rewrite")
    def a_rewrite_that_is_none(self) -> None:
        self._listed_entry("lib/empty")["rewrite"] = {"mode": "rot13", "placeholder": "x"}
        self.reseal()

    def _listed_entry(self, path: str) -> dict[str, Any]:
        return next(item for item in self.manifest["environment"] if item["path"] == path)

    @attack("is too long")
    def a_path_of_a_megabyte(self) -> None:
        """Nothing is packed for it: the listing alone would take hours to look at."""
        self.manifest["environment"].append({"path": "a/" * 50_000 + "a", "sha256": "0" * 64})
        self.reseal()

    @attack("'" + "n" * 256)
    def a_name_of_256_bytes(self) -> None:
        self._tree(**{"n" * 256: b"x"})
