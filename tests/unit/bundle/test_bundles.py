"""Bundles of the null backend: what is in one, what binds from one, and how one is refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
import toy_family as toy

from xpu import Orchestrator, Problem
from xpu.adaptor import BuildCache, Called
from xpu.adaptor.manifest_file import manifest_from_toml
from xpu.bundle import Bundle, BundleWriter
from xpu.errors import XpuBuildError, XpuConfigError, XpuError, XpuLaunchException
from xpu.orchestrator import Building, chosen_families, settings_for, targets_of, write_bundle
from xpu.spec import KernelSource, Preparation
from xpu.testing import NullBackend, NullLaunch, registry_of

MEMBERS = {"fine": {"mode": 0, "grain": 7}, "coarse": {"mode": 0, "grain": 70}}


def triple(launch: NullLaunch) -> float:
    x, y = launch.buffers[:2]
    y[...] = 3 * x + 1
    return 7000.0 / int(launch.defines["XPU_GRAIN"])


class Part(NullBackend):
    """A part of which several kinds exist; `runs` are the targets whose code this one runs."""

    runs = ("null",)
    is_prebuilt = False

    def __init__(self, name: str = "null"):
        super().__init__("c", triple, name=name)

    def code_targets(self, index=0):
        return self.runs

    def prebuilt(self, runtime):
        made = type(self)(self.name)
        made.is_prebuilt = True
        return made

    def compiler(self):
        assert not self.is_prebuilt, "whoever binds from a bundle asks for no compiler"
        return super().compiler()


class Halved(Preparation):
    argument = "x"

    def source(self, dialect):
        return KernelSource(dialect, "halve")

    def sizes(self, raw_shape, constants):
        return raw_shape

    def prepared_bytes(self, raw_shape, constants):
        return 4 * raw_shape[0]


@pytest.fixture
def registry():
    return registry_of(Part, toy.Toy)


@pytest.fixture
def make(tmp_path: Path, registry):
    """Write a bundle of the toy family and return its directory."""

    def bundle(members=MEMBERS, out="bundle", registry=registry, **keys) -> Path:
        config = tmp_path / f"config-{out}"
        config.mkdir(exist_ok=True)
        toy.write_family(config, members, **keys)
        settings = settings_for(registry, config)
        building = Building(registry, settings, BuildCache(tmp_path / "cache"))
        chosen = chosen_families(settings, ["toy"])
        steps = building.steps(chosen, targets_of(registry, ["null"], None))
        with BundleWriter(tmp_path / out, "0") as writer:
            write_bundle(writer, list(building.run(steps)), settings, chosen)
        return tmp_path / out

    return bundle


@pytest.fixture
def bound(tmp_path: Path, registry):
    """Make orchestrators that stand on a bundle, whose build cache is empty."""

    def orchestrator(bundle, registry=registry, **more) -> Orchestrator:
        cache = tmp_path / "empty"
        return Orchestrator(bundle=bundle, registry=registry, build_cache=cache, **more)

    return orchestrator


def test_every_file_is_named_with_its_hash_and_every_manifest_with_its_code(make):
    bundle = make()
    document = json.loads((bundle / "bundle.json").read_text())
    hashes = document["contents"]["hashes"]
    files = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    assert files == {"bundle.json", *hashes}
    for name, sha in hashes.items():
        assert hashlib.sha256((bundle / name).read_bytes()).hexdigest() == sha
    [target] = document["contents"]["targets"]
    assert (target["backend"], target["target"], target["compiler"]) == ("null", "null", "null 1")
    assert [one["kernel"] for one in target["kernels"]] == ["toy.fine", "toy.coarse"]
    for one in target["kernels"]:
        manifest = manifest_from_toml((bundle / one["manifest"]).read_text(), one["manifest"])
        assert one["code"] == f"code/{manifest.code_hash}"


def test_it_binds_tunes_and_runs_and_no_compiler_is_asked(make, bound):
    bundle = make(default='{ c = "fine" }')
    with bound(bundle, tuning="first-use") as orchestrator:
        kernel = orchestrator.bind("toy", n=50)
        assert (kernel.member, kernel.result.source) == ("coarse", "timed")
        x, y = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
        kernel(x, out=y)
        np.testing.assert_array_equal(y, 3 * x + 1)
        assert orchestrator.calibrator.key.compiler == "null 1"
    with bound(bundle) as orchestrator:
        assert orchestrator.bind("toy", n=50).member == "fine"


def test_the_configuration_is_the_bundles_own(make, bound, tmp_path, monkeypatch):
    bundle = make(default='{ c = "coarse" }')
    other = tmp_path / "other"
    other.mkdir()
    toy.write_family(other, {"stranger": {"mode": 1}})
    monkeypatch.setenv("XPU_CONFIG_DIR", str(other))
    with bound(bundle) as orchestrator:
        assert [each.name for each in orchestrator.settings.families["toy"].members] == [*MEMBERS]
        assert orchestrator.bind("toy", n=5).member == "coarse"


def test_a_member_that_is_not_in_the_bundle_is_named_and_not_considered(make, bound, tmp_path):
    bundle = make()
    later = toy.write_family(
        tmp_path, {"coarse": {"mode": 0, "grain": 71}, "third": {"mode": 0}}, cap=2
    )
    with bound(bundle, config=later) as orchestrator:
        told = orchestrator.bind("toy", n=5).explain()
        assert f"third: capped: not in bundle {bundle}" in told
        assert f"coarse: capped: bundle {bundle} has it made from another source" in told
        assert orchestrator.choose("toy", Problem(n=5)).source == "only"
        orchestrator.override("toy", "third")
        with pytest.raises(XpuLaunchException, match="third"):
            orchestrator.bind("toy", n=5)


def test_a_plugin_whose_source_has_changed_is_not_served_by_the_old_code(make, bound, monkeypatch):
    bundle = make()
    monkeypatch.setattr(toy, "SOURCE", toy.SOURCE + "\n// mended")
    with (
        bound(bundle) as orchestrator,
        pytest.raises(XpuLaunchException, match="has it made from another source"),
    ):
        orchestrator.bind("toy", n=5)


def test_preparation_and_staging_are_carried(make, bound, monkeypatch):
    monkeypatch.setattr(toy.Toy, "preparation", Halved())
    bundle = make()
    [target] = Bundle(bundle).targets
    assert [one.kernel for one in target.kernels] == ["toy.fine", "toy.coarse", "toy.prepare"]
    monkeypatch.setattr(toy.Toy, "preparation", None)
    monkeypatch.setattr(toy.Toy, "staging", lambda *_: (Halved(),))
    staged = make(out="staged")
    [target] = Bundle(staged).targets
    assert [one.kernel for one in target.kernels] == ["toy.fine", "toy.fine.stage_x", "toy.coarse"]
    with bound(staged) as orchestrator:
        assert orchestrator.considered("toy", Problem(n=5)).survivors


def test_members_that_call_a_library_are_carried_by_name(make, bound, monkeypatch):
    monkeypatch.setattr(toy.Toy, "source", lambda *_: KernelSource("c", routine="gemm"))
    bundle = make()
    [target] = Bundle(bundle).targets
    assert target.kernels == ()
    assert target.routines == {"toy.fine": "gemm", "toy.coarse": "gemm"}
    with bound(bundle) as orchestrator:
        notes = [one.note for one in orchestrator.considered("toy", Problem(n=5)).aside]
        assert all("offers no routine 'gemm'" in note for note in notes)
    monkeypatch.setattr(toy.Toy, "source", lambda *_: KernelSource("c", routine="other"))
    with bound(bundle) as orchestrator:
        notes = [one.note for one in orchestrator.considered("toy", Problem(n=5)).aside]
        assert all("from another source" in note for note in notes)


def test_a_device_that_it_has_no_code_for_is_told_what_it_holds(make, bound, monkeypatch):
    bundle = make()
    monkeypatch.setattr(Part, "runs", ("null9", "null8"))
    with pytest.raises(XpuLaunchException) as caught:
        bound(bundle)
    told = str(caught.value)
    assert "holds no code for null device 0, which runs null9, null8; it holds null null" in told
    assert "xpu build --backend null --out DIR" in told


def test_the_best_target_that_it_holds_serves(make, bound, monkeypatch):
    monkeypatch.setattr(Part, "runs", ("null9", "null"))
    with bound(make()) as orchestrator:
        assert orchestrator.bind("toy", n=5).member == "fine"


def test_a_backend_that_it_has_nothing_for_is_told_so(make, bound):
    bundle = make()
    others = registry_of(Part("other"), toy.Toy)
    with pytest.raises(XpuLaunchException, match="it holds null null; other: the bundle holds no"):
        bound(bundle, registry=others)
    with pytest.raises(XpuConfigError, match="no backend is called 'null'"):
        bound(bundle, registry=others, backend="null")


def test_a_plugin_that_is_gone_is_named(make, bound):
    bundle = make()
    with (
        bound(bundle, registry=registry_of(Part)) as orchestrator,
        pytest.raises(XpuConfigError, match="no loaded plugin brings its design 'toy'"),
    ):
        orchestrator.bind("toy", n=5)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("what", ["code/*", "manifests/*/toy.coarse.toml", "config/rules.toml"])
@pytest.mark.parametrize(
    ("damage", "how"),
    [(_cut, "is not what was written"), (_flip, "is not what was"), (Path.unlink, "is missing")],
)
def test_a_file_that_is_damaged_is_one_error_that_names_it(make, bound, what, damage, how):
    bundle = make()
    path = sorted(bundle.glob(what))[-1]
    damage(path)
    with pytest.raises(XpuBuildError) as caught:
        bound(bundle)
    name = path.relative_to(bundle).as_posix()
    assert str(caught.value).startswith(f"bundle {bundle}: {name} {how}")
    assert "xpu build --target TARGET --out DIR" in str(caught.value)


@pytest.mark.parametrize("what", ["code/*", "manifests/*/toy.*.toml"])
@pytest.mark.parametrize(
    ("damage", "how"), [(_cut, "is not what was written"), (_flip, "is not"), (Path.unlink, "is")]
)
def test_a_file_that_is_damaged_later_serves_nobody(make, bound, what, damage, how):
    bundle = make()
    with bound(bundle) as orchestrator:
        for path in bundle.glob(what):
            stat = path.stat()
            damage(path)
            if path.exists():  # whoever damages it may keep its size and its time
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        with pytest.raises(XpuBuildError) as caught:
            orchestrator.bind("toy", n=5)
    assert str(caught.value).startswith(f"bundle {bundle}: {what.partition('/')[0]}/")
    assert how in str(caught.value)


def test_a_file_that_was_damaged_after_its_use_serves_nobody(make, bound):
    bundle = make()
    with bound(bundle) as orchestrator:
        orchestrator.bind("toy", n=5)
        for path in bundle.glob("code/*"):
            _flip(path)
        with pytest.raises(XpuBuildError, match="its hash is another"):
            orchestrator.bind("toy", n=50)


def test_a_file_that_is_as_it_was_is_not_read_again(make, monkeypatch):
    bundle = Bundle(make())
    [target] = bundle.targets
    bundle.verify(target.files)
    for path in bundle.directory.glob("code/*"):
        path.touch()
    bundle.verify(target.files)  # other times, the same code
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("read again"))
    bundle.verify(target.files)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "bundle.json cannot be understood"),
        ("[]", "bundle.json cannot be understood: it states no schema"),
        ('{"schema": 2}', "bundle schema 2; this version reads 1"),
        ('{"schema": "1"}', "bundle schema '1'; this version reads 1"),
        ('{"schema": 1}', "its contents are not those that were written"),
        ('{"schema": 1, "sha256": "0", "contents": {}}', "its contents are not those that"),
    ],
)
def test_a_top_file_that_is_none_is_refused(make, bound, text, told):
    bundle = make()
    (bundle / "bundle.json").write_text(text)
    with pytest.raises(XpuBuildError) as caught:
        bound(bundle)
    assert told in str(caught.value)


def test_a_top_file_that_was_changed_is_refused(make, bound):
    bundle = make()
    top = bundle / "bundle.json"
    top.write_text(top.read_text().replace("toy.coarse", "toy.fine", 1))
    with pytest.raises(XpuBuildError, match="not those that were written"):
        bound(bundle)


TARGET = "contents.targets[0]"


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("version",), 7, "contents.version is a text, not 7"),
        (("targets",), {"a": 1}, "contents.targets is a list of tables, not {'a': 1}"),
        (("targets", 0), [], f"{TARGET} is a table of backend, dialect, target, carried, "),
        (("targets", 0, "backend"), ["null"], f"{TARGET}.backend is a text, not ['null']"),
        (("targets", 0, "more"), "", f"{TARGET} is a table of backend, "),
        (("targets", 0, "runtime"), ["a"], f"{TARGET}.runtime is a table of texts, not ['a']"),
        (("targets", 0, "routines"), {"a": 1}, f"{TARGET}.routines.a is a text, not 1"),
        (("targets", 0, "kernels"), None, f"{TARGET}.kernels is a list of tables, not None"),
        (("targets", 0, "kernels", 1), "x", f"{TARGET}.kernels[1] is a table of kernel, source, "),
        (("targets", 0, "kernels", 1, "code"), 7, f"{TARGET}.kernels[1].code is a text, not 7"),
        (("hashes",), [], "contents.hashes is a table of texts, not []"),
        (("hashes", "config/rules.toml"), None, "contents.hashes.config/rules.toml is a text"),
    ],
)
def test_a_forged_top_file_is_one_error_that_names_the_field(make, bound, place, value, told):
    bundle = make()
    forge(bundle, place, value)
    with pytest.raises(XpuBuildError) as caught:
        bound(bundle)
    start = f"bundle {bundle}: bundle.json cannot be understood: {told}"
    assert str(caught.value).startswith(start)
    with pytest.raises(XpuConfigError, match="that cannot be understood"):
        make()  # nor is it replaced


@pytest.mark.parametrize(("name", "shown"), [("config/\0", r"\x00"), ("config/\ud800", r"\ud800")])
def test_what_is_no_name_of_a_file_is_one_error(make, bound, name, shown):
    bundle = make()
    forge(bundle, ("hashes", name), "")
    with pytest.raises(XpuBuildError) as caught:
        bound(bundle)
    assert str(caught.value).startswith(f"bundle {bundle}: config/{shown} cannot be read: ")


def forge(bundle: Path, place: tuple[str | int, ...], value: object) -> None:
    """Change a top file's contents at a place, and its hash with them."""
    top = bundle / "bundle.json"
    document = json.loads(top.read_text())
    *way, last = ("contents", *place)
    table = document
    for key in way:
        table = table[key]
    table[last] = value
    body = json.dumps(document["contents"], sort_keys=True, separators=(",", ":"))
    document["sha256"] = hashlib.sha256(body.encode()).hexdigest()
    top.write_text(json.dumps(document))


@pytest.mark.parametrize("place", ["nothing", "file"])
def test_a_place_without_a_bundle_is_refused(bound, tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(XpuConfigError, match=f"there is no bundle in {tmp_path / place}"):
        bound(tmp_path / place)


def test_a_bundle_is_replaced_whole_and_nothing_else_is(make, tmp_path):
    bundle = make()
    make({"other": {"mode": 0}})
    assert sorted(path.name for path in bundle.glob("manifests/*/*")) == ["toy.other.toml"]
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    (tmp_path / "full").mkdir()
    (tmp_path / "full/of").write_text("something else")
    with pytest.raises(XpuConfigError, match="is there and is no bundle"):
        BundleWriter(tmp_path / "full", "0")
    assert (tmp_path / "full/of").read_text() == "something else"


def files_of(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("foreign", "named"),
    [("notes.txt", "notes.txt"), ("code/mine/x", "code/mine/x"), ("empty/", "empty/")],
)
def test_a_bundle_with_foreign_files_is_not_replaced(make, foreign, named):
    bundle = make()
    if foreign.endswith("/"):
        (bundle / foreign).mkdir()
    else:
        (bundle / foreign).parent.mkdir(exist_ok=True)
        (bundle / foreign).write_text("mine")
    before = files_of(bundle)
    with pytest.raises(XpuConfigError, match=f"is not of its bundle: {named}; move that"):
        make()
    assert files_of(bundle) == before


def test_a_link_in_a_bundle_is_foreign_and_one_to_a_bundle_is_followed(make, tmp_path):
    bundle, other = make(), tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("")
    (bundle / "link").symlink_to(other)
    with pytest.raises(XpuConfigError, match="is not of its bundle: link;"):
        BundleWriter(bundle, "0")
    (bundle / "link").unlink()
    (tmp_path / "current").symlink_to(bundle)
    make({"other": {"mode": 0}}, out="current")
    assert (tmp_path / "current").is_symlink()
    assert sorted(path.name for path in bundle.glob("manifests/*/*")) == ["toy.other.toml"]


def test_what_came_while_a_bundle_was_built_is_kept(make, tmp_path):
    bundle = make()
    [target] = Bundle(bundle).targets
    with BundleWriter(bundle, "0") as writer:
        writer.add_target(target, [], [Called("toy.fine", "gemm")], {})
        (bundle / "late.txt").write_text("mine")
        before = files_of(bundle)
        with pytest.raises(XpuConfigError, match=r"is not of its bundle: late\.txt"):
            writer.finish()
    assert files_of(bundle) == before
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("top", "told"),
    [("{}", "cannot be understood"), ('{"schema": 9}', "a bundle of schema 9, whose files")],
)
def test_a_directory_whose_top_file_is_none_is_not_replaced(tmp_path, top, told):
    place = tmp_path / "other"
    place.mkdir()
    (place / "bundle.json").write_text(top)
    (place / "mine").write_text("")
    with pytest.raises(XpuConfigError, match=told):
        BundleWriter(place, "0")
    assert files_of(place) == {"bundle.json": top.encode(), "mine": b""}


def test_places_that_are_never_replaced(make, tmp_path, monkeypatch):
    bundle = make()
    monkeypatch.chdir(bundle / "config")
    before = files_of(tmp_path)
    with pytest.raises(XpuConfigError, match="--out is empty"):
        BundleWriter("", "0")
    for place in (".", Path(), bundle / "config"):
        with pytest.raises(XpuConfigError, match="is the working directory"):
            BundleWriter(place, "0")
    for place in ("..", bundle, "/"):
        with pytest.raises(XpuConfigError, match="is above the working directory"):
            BundleWriter(place, "0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(bundle))
    with pytest.raises(XpuConfigError, match="is the home directory"):
        BundleWriter(bundle, "0")
    assert files_of(tmp_path) == before


def test_a_bundle_that_is_not_finished_leaves_nothing(tmp_path):
    with BundleWriter(tmp_path / "bundle", "0") as writer:
        writer.add_config({"rules.toml": ""})
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_without_kernels_is_not_made(tmp_path):
    with (
        BundleWriter(tmp_path / "bundle", "0") as writer,
        pytest.raises(XpuConfigError, match=r"bundle: no kernel was built for it"),
    ):
        writer.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(XpuError, match="cannot be written"):
        BundleWriter(tmp_path / "file/bundle", "0")


def test_code_that_is_not_its_manifests_goes_into_no_bundle(registry, tmp_path):
    settings = settings_for(registry, toy.write_family(tmp_path, MEMBERS))
    building = Building(registry, settings, BuildCache(tmp_path / "cache"))
    chosen = chosen_families(settings, ["toy"])
    builds = list(building.run(building.steps(chosen, targets_of(registry, ["null"], None))))
    builds[0].members["fine"].code.write_bytes(b"another")
    with (
        pytest.raises(
            XpuBuildError, match=r"toy\.fine: the code in .* is not that of its manifest"
        ),
        BundleWriter(tmp_path / "bundle", "0") as writer,
    ):
        write_bundle(writer, builds, settings, chosen)
    assert not (tmp_path / "bundle").exists()


def test_a_bundle_may_be_moved(make, bound, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.move(make(), moved)
    with bound(moved) as orchestrator:
        assert orchestrator.bind("toy", n=5).member == "fine"


def test_its_configuration_is_toml_with_the_families_that_were_built(make):
    bundle = make(cap=3)
    families = tomllib.loads((bundle / "config/families.toml").read_text())["families"]
    assert families == {
        "toy": {
            "design": "toy",
            "problem": ["n"],
            "cap": 3,
            "members": [{"name": name, **parameters} for name, parameters in MEMBERS.items()],
        }
    }
