"""What higher layers do to lower ones, and families whose design is not loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from xpu.errors import XpuConfigError
from xpu.model import BucketPolicy, Problem
from xpu.settings import Settings, Vocabulary, load_settings, shipped_rules

Load = Callable[..., Settings]


def _names(settings: Settings, family: str = "q") -> list[str]:
    return [member.name for member in settings.families[family].members]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_base_becomes_the_model(load: Load, base: Path) -> None:
    settings = load()
    family = settings.family("q")
    assert family.design == "gemm"
    assert family.problem == ("m", "n")
    assert family.constants == {"format": "a"}
    assert family.buckets == {"m": "pow2_up"}
    assert (family.cap, family.requires) == (3, ("member.tile_m % 8 == 0",))
    assert family.default_for("c") == "small"
    large = family.member("large")
    assert large is not None
    assert (dict(large.parameters), large.dialects) == ({"tile_m": 64, "threads": 128}, ("c",))
    assert settings.family("v").cap == 8
    assert [(rule.id, rule.limit) for rule in settings.rules] == [
        ("R1", 0),
        ("R2", "device.multiprocessors"),
    ]
    assert settings.rules[1].records == {"short": "need < limit"}
    assert settings.buckets["some"] == BucketPolicy("some", "list", values=(1, 2, 8))
    assert settings.buckets["exact"].kind == "exact"
    assert settings.probes["look"].problems == ("8x64", "16x64")
    assert settings.probes["look"].memory == "warm"
    assert settings.origins == tuple(
        base / f"{name}.toml" for name in ("families", "rules", "buckets", "probes")
    )
    assert not settings.dormant


def test_settings_cannot_be_changed(load: Load) -> None:
    settings = load()
    with pytest.raises(TypeError):
        settings.families["w"] = settings.families["q"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        settings.rules = ()  # type: ignore[misc]


def test_a_family_that_is_not_there_is_told_the_nearest(load: Load) -> None:
    with pytest.raises(XpuConfigError, match=r"no family is called 'qq'; did you mean 'q'\?"):
        load().family("qq")


def test_layers_stand_in_order_and_all_are_read(load: Load, tmp_path: Path, user: Path) -> None:
    caps = "[families.q]\ncap = {}\n"
    plugin = _write(tmp_path / "plugin" / "families.toml", caps.format(11))
    assert load(plugin_files=[("acme", plugin)]).families["q"].cap == 11
    mine = _write(user / "families.toml", caps.format(12))
    assert load(plugin_files=[("acme", plugin)]).families["q"].cap == 12
    given = _write(tmp_path / "given" / "families.toml", caps.format(13)).parent
    last = _write(tmp_path / "last.toml", caps.format(14))
    settings = load(plugin_files=[("acme", plugin)], config=str(given))
    assert settings.families["q"].cap == 13
    settings = load(plugin_files=[("acme", plugin)], config=[given, last])
    assert settings.families["q"].cap == 14
    assert settings.origins[4:] == (plugin, mine, given / "families.toml", last)


def test_a_later_plugin_is_over_an_earlier_one(load: Load, tmp_path: Path) -> None:
    files = [
        (name, _write(tmp_path / name / "families.toml", f"[families.q]\ncap = {cap}"))
        for name, cap in (("zeta", 5), ("alpha", 6))
    ]
    assert load(plugin_files=files).families["q"].cap == 6


def test_members_are_added_at_the_end_and_replaced_in_place(load: Load, tmp_path: Path) -> None:
    path = _write(
        tmp_path / "mine.toml",
        """
        [[families.q.members]]
        name = "medium"
        tile_m = 32
        [[families.q.members]]
        name = "small"
        tile_m = 16
        depth = 2
        """,
    )
    settings = load(config=path)
    assert _names(settings) == ["small", "large", "medium"]
    small = settings.families["q"].members[0]
    assert (dict(small.parameters), small.dialects) == ({"tile_m": 16, "depth": 2}, None)
    assert settings.families["q"].cap == 3
    assert settings.families["v"] == load().families["v"]


def test_a_tables_keys_are_replaced_one_by_one_and_lists_whole(load: Load, tmp_path: Path) -> None:
    path = _write(
        tmp_path / "mine.toml",
        """
        [families.q]
        buckets = { n = "some" }
        default = { c = "large" }
        requires = []
        [probes.look]
        problems = ["1x1"]
        [buckets.pow2_up]
        most = 8
        """,
    )
    settings = load(config=path)
    assert settings.families["q"].buckets == {"m": "pow2_up", "n": "some"}
    assert settings.families["q"].default == {"c": "large"}
    assert settings.families["q"].requires == ()
    assert settings.probes["look"].problems == ("1x1",)
    assert settings.probes["look"].families == ("q",)
    assert settings.buckets["pow2_up"] == BucketPolicy("pow2_up", "pow2", "up", most=8)


def test_a_policy_that_states_its_kind_is_a_new_one(load: Load, tmp_path: Path) -> None:
    path = _write(tmp_path / "buckets.toml", '[buckets.some]\nkind = "linear"\nstep = 4\n')
    assert load(config=path).buckets["some"] == BucketPolicy("some", "linear", step=4)


def test_a_rule_is_replaced_by_id_and_title_else_it_follows_its_id(
    load: Load, tmp_path: Path
) -> None:
    rule = '[[rules]]\nid = "{}"\ntitle = "{}"\nneed = {}\nprune_when = "need > 1"\n'
    texts = [("R1", "of mine", 1), ("R2", "tiles", 2), ("R9", "last", 3), ("R1", "more", 4)]
    path = _write(tmp_path / "rules.toml", "".join(rule.format(*text) for text in texts))
    rules = load(config=path).rules
    assert [(it.id, it.title, it.need) for it in rules] == [
        ("R1", "spill bytes", "kernel.spill_bytes"),
        ("R1", "of mine", 1),
        ("R1", "more", 4),
        ("R2", "tiles", 2),
        ("R9", "last", 3),
    ]
    assert rules[3].limit is None
    assert not rules[3].records


def test_one_name_twice_in_one_layer_is_an_error_even_in_two_files(
    load: Load, tmp_path: Path
) -> None:
    text = '[[families.q.members]]\nname = "medium"\ntile_m = 32\n'
    first = _write(tmp_path / "a" / "families.toml", text)
    second = _write(tmp_path / "b" / "families.toml", text)
    assert "medium" in _names(load(plugin_files=[("one", first), ("two", second)]))
    with pytest.raises(XpuConfigError) as raised:
        load(plugin_files=[("one", first), ("one", second)])
    said = str(raised.value)
    assert said.startswith(f"{second} ")
    assert f"families.q.members.medium: found 'medium' twice, in {first} too" in said


def test_a_base_file_that_is_missing_comes_from_the_shipped_ones(
    load: Load, base: Path, vocabulary: Vocabulary
) -> None:
    (base / "rules.toml").unlink()
    settings = load()
    assert settings.rules == load_settings(environ={}, vocabulary=vocabulary).rules
    assert settings.origins[0] == base / "families.toml"
    assert settings.origins[1].parent != base


def test_a_file_of_any_name_may_hold_every_table(load: Load, tmp_path: Path) -> None:
    path = _write(
        tmp_path / "everything.toml",
        """
        [families.w]
        design = "vec"
        problem = ["n"]
        buckets = { n = "halves" }
        [[families.w.members]]
        name = "a"
        rows = 2
        [buckets.halves]
        kind = "linear"
        step = 32
        [probes.mine]
        families = ["w"]
        problems = ["64"]
        [[rules]]
        id = "R9"
        title = "cores"
        need = "member.rows * problem.n"
        limit = "device.cores"
        prune_when = "need > limit"
        """,
    )
    settings = load(config=path)
    assert _names(settings, "w") == ["a"]
    assert settings.rules[-1].id == "R9"
    assert settings.probes["mine"].families == ("w",)
    assert Problem.parse(settings.families["w"].problem, "64").n == 64


def test_an_empty_file_declares_nothing(load: Load, base: Path) -> None:
    for name in ("families.toml", "probes.toml", "rules.toml"):
        (base / name).write_text("")
    settings = load()
    assert (dict(settings.families), settings.rules, dict(settings.probes)) == ({}, (), {})


def test_a_user_directory_that_is_not_there_is_no_error(load: Load, user: Path) -> None:
    user.rmdir()
    assert len(load().families) == 2


def test_a_family_whose_plugin_is_not_loaded_is_dormant(
    load: Load, base: Path, vocabulary: Vocabulary
) -> None:
    path = base / "probes.toml"
    path.write_text(path.read_text().replace('["q"]', '["v", "q"]').replace("x64", ""))
    path.write_text(path.read_text().replace('problems = ["8", "16"]', ""))
    without = attrs.evolve(
        vocabulary, designs={"vec": vocabulary.designs["vec"]}, missing=("acme (failed)",)
    )
    settings = load(vocabulary=without)
    assert list(settings.families) == ["v"]
    assert list(settings.dormant) == ["q"]
    for part in ("'gemm'", "acme (failed)", "xpu doctor"):
        assert part in settings.dormant["q"]
    assert settings.probes["look"].families == ("v",)
    with pytest.raises(XpuConfigError, match=r"family 'q' cannot serve: .*'gemm'.*acme"):
        settings.family("q")


def test_a_plugins_family_of_an_absent_design_is_dormant_though_all_is_loaded(
    load: Load, tmp_path: Path
) -> None:
    text = '[families.x]\ndesign = "gemn"\nproblem = ["m"]\n[[families.x.members]]\nname = "a"\n'
    path = _write(tmp_path / "families.toml", text)
    assert list(load(plugin_files=[("acme", path)]).dormant) == ["x"]
    with pytest.raises(XpuConfigError, match=r"families\.x\.design: found 'gemn'; did you mean"):
        load(config=path)


def test_of_a_dormant_family_the_syntax_is_still_checked(
    load: Load, base: Path, vocabulary: Vocabulary
) -> None:
    path = base / "families.toml"
    path.write_text(path.read_text().replace("member.tile_m % 8 == 0", "member.unknown % 8 == 0"))
    nothing = Vocabulary()
    assert set(load(vocabulary=nothing).dormant) == {"q", "v"}
    path.write_text(path.read_text().replace("member.unknown % 8", "member.unknown ** 8"))
    with pytest.raises(XpuConfigError, match=r"families\.q\.requires: "):
        load(vocabulary=nothing)


def test_the_shipped_rules_need_no_plugin_and_follow_the_base(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XPU_CONFIG_DIR", raising=False)
    shipped = shipped_rules()
    assert shipped_rules() is shipped
    assert shipped == load_settings(environ={}).rules
    monkeypatch.setenv("XPU_CONFIG_DIR", str(base))
    assert [rule.title for rule in shipped_rules()] == ["spill bytes", "tiles"]
