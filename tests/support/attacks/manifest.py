"""The manifest: everything fits, and no honest packer writes it."""

from collections.abc import Callable

from manifests import archive, canonical
from manifests.exitcodes import ExitCode
from tests.support.attacks.dismantled import WEIGHTS, Dismantled
from tests.support.attacks.table import SCRIPT, attack


class InTheManifest(Dismantled):
    """The manifest: everything fits, and no honest packer writes it."""

    @attack("bundle.json: expected")
    def a_manifest_edited_and_listed(self) -> None:
        """SHA256SUMS fits, and install.sh still names the manifest that was."""
        self.manifest["thinking"] = False
        self.repack()

    @attack("install.sh: altered", door=SCRIPT)
    def a_manifest_edited_and_named(self) -> None:
        """install.sh names it, and SHA256SUMS is the one that was."""
        listed = self.listed()
        self.manifest["thinking"] = False
        self.reseal()
        self.listing.write_bytes(listed)

    def _text(self, change: Callable[[bytes], bytes]) -> None:
        self.reseal(change(canonical.dumps(self.manifest)))

    @attack("bundle.json: not canonical")
    def a_manifest_with_blanks(self) -> None:
        self._text(lambda text: text.replace(b":", b": "))

    @attack("bundle.json: not canonical")
    def a_manifest_without_its_line_end(self) -> None:
        self._text(lambda text: text[:-1])

    @attack("bundle.json: not canonical")
    def a_manifest_in_crlf(self) -> None:
        self._text(lambda text: text.replace(b"\n", b"\r\n"))

    @attack("bundle.json: not canonical")
    def a_manifest_in_another_order(self) -> None:
        self._text(lambda text: b'{"tool":"x",' + text[1:].replace(b',"tool":', b',"toolx":'))

    @attack("bundle.json: not canonical JSON (duplicate key)")
    def a_key_twice_in_the_manifest(self) -> None:
        self._text(lambda text: text.replace(b'{"created":', b'{"created":0,"created":'))

    @attack("bundle.json: not canonical")
    def a_manifest_with_a_bom(self) -> None:
        self._text(lambda text: b"\xef\xbb\xbf" + text)

    @attack("bundle.json: not canonical")
    def a_manifest_with_a_float(self) -> None:
        self._text(lambda text: text.replace(b'"schema":1', b'"schema":1.0'))

    @attack("bundle.json: not canonical")
    def a_manifest_with_nan(self) -> None:
        self._text(lambda text: text.replace(b'"schema":1', b'"schema":NaN'))

    @attack("bundle.json: not canonical")
    def a_manifest_with_an_endless_number(self) -> None:
        self._text(lambda text: text.replace(b'"schema":1', b'"schema":' + b"9" * 5000))

    @attack("bundle.json: not canonical")
    def a_manifest_with_half_a_character(self) -> None:
        self._text(lambda text: text.replace(b'"tool":"', b'"tool":"\\ud800'))

    @attack("bundle.json: not canonical")
    def a_manifest_that_is_no_json(self) -> None:
        self._text(lambda text: text[: len(text) // 2])

    @attack("bundle.json: not canonical")
    def a_manifest_nested_without_end(self) -> None:
        self._text(lambda text: b"[" * 200_000 + b"]" * 200_000 + b"\n")

    @attack("bundle.json")
    def a_manifest_that_is_a_list(self) -> None:
        self._text(lambda text: b"[]\n")

    @attack("bundle.json: unknown field")
    def an_unknown_field(self) -> None:
        self.manifest["surprise"] = 1
        self.reseal()

    @attack("bundle.json.members[0].size")
    def a_size_that_is_a_text(self) -> None:
        self.manifest["members"][0]["size"] = "1"
        self.reseal()

    @attack("bundle.json: schema 0")
    def an_older_format_than_the_first(self) -> None:
        self.manifest["schema"] = 0
        self.reseal()

    @attack("format 2", code=ExitCode.USAGE)
    def a_newer_format(self) -> None:
        self.manifest["schema"] = 2
        self.reseal()

    @attack("bundle.json: the name")
    def a_name_that_leads_away(self) -> None:
        self.manifest["name"] = "../../../outside/x"
        self.reseal()

    @attack("bundle.json: the model name")
    def a_model_name_that_leads_away(self) -> None:
        self.manifest["model"]["name"] = "../../outside/x"
        self.reseal()

    @attack("bundle.json: the revision")
    def a_revision_that_leads_away(self) -> None:
        self.manifest["model"]["revision"] = "../../x"
        self.reseal()

    @attack("env.tar.zst is missing")
    def no_environment(self) -> None:
        self.manifest["members"] = [
            item for item in self.manifest["members"] if item["path"] != "env.tar.zst"
        ]
        self.parts = [part for part in self.parts if part.path != "env.tar.zst"]
        self.reseal()

    @attack("is listed twice")
    def a_member_listed_twice(self) -> None:
        self.manifest["members"].append(self.member(WEIGHTS))
        self.parts.append(self.part(WEIGHTS))
        self.reseal()

    @attack("is listed twice")
    def members_that_differ_by_case(self) -> None:
        self.put(WEIGHTS.replace("sub", "Sub"), b"")
        self.reseal()

    @attack("model: Sub: differs from sub only by case")
    def folders_that_differ_by_case(self) -> None:
        self.put("model/Sub/other.safetensors", b"")
        self.reseal()

    def _member(self, path: str) -> None:
        self.put(path, b"planted")
        self.reseal()

    @attack("absolute path")
    def a_member_with_an_absolute_path(self) -> None:
        self._member(str(self.root / "outside/planted"))

    @attack("'..'")
    def a_member_with_a_path_above(self) -> None:
        self._member("model/../../../outside/planted")

    @attack("'bad\\nname'")
    def a_member_with_a_line_break(self) -> None:
        self._member("model/bad\nname")

    @attack("env/bin/python")
    def a_document_in_the_environment(self) -> None:
        self._member("env/bin/python")

    @attack("runtime/bin/python")
    def a_document_in_the_runtime(self) -> None:
        self._member("runtime/bin/python")

    @attack("Bundle.json")
    def a_document_like_the_manifest(self) -> None:
        self._member("Bundle.json")

    @attack("lies below")
    def a_document_below_a_document(self) -> None:
        self.put("notes", b"a file")
        self._member("notes/more")

    @attack("lies below")
    def a_model_file_below_a_file(self) -> None:
        self._member("model/config.json/more")

    @attack("has no size or digest")
    def a_negative_size_in_the_manifest(self) -> None:
        self.manifest["members"][-1]["size"] = -1
        self.reseal()

    @attack("has no size or digest")
    def a_size_beyond_any_disk(self) -> None:
        self.manifest["members"][-1]["size"] = 10**40
        self.reseal()

    @attack("this host does not fit: disk", code=ExitCode.FILESYSTEM)
    def a_size_beyond_this_disk(self) -> None:
        self.manifest["members"][-1]["size"] = 10**18
        self.reseal()

    @attack("has no size or digest")
    def a_digest_that_is_none(self) -> None:
        self.manifest["members"][-1]["sha256"] = "0" * 63
        self.reseal()

    @attack("created")
    def a_time_beyond_the_calendar(self) -> None:
        self.manifest["created"] = 1 << 60
        for part in self.parts:
            part.header = archive.header(part.path, len(part.data), 1 << 60)
        self.reseal()
        self.first_header(mtime=1 << 60)
