"""Gates: what fails a build by name unless a declaration tracks it.

They look at what the compile step made of a family for one target, and at what is declared of
it. A declaration whose cause is gone is a finding as well: ``stale``. Nothing here keeps a
kernel from being bound; that is for the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from xpu.adaptor.built import Built, Called
from xpu.errors import XpuBuildError, XpuDeadlineError
from xpu.model import PREPARATION, Declarations, Gate, Member, Unbounded, Unlowered, nearest

Result = Built | Called | XpuBuildError


@attrs.frozen
class Finding:
    """What a gate found.

    Attributes
    ----------
    gate, family, kernel, member, backend, target
        Which gate, and where. `member` is empty where a declaration speaks of no one member.
    figure
        What was found: bytes, seconds, a place in the host code, what a compiler says.
    declaration
        What tracks it, or would.
    item
        The plan item that tracks it; empty: nothing does, and the build fails.
    """

    gate: Gate
    family: str
    kernel: str
    member: str
    backend: str
    target: str
    figure: str
    declaration: str
    item: str = ""

    def __str__(self) -> str:
        """Say it in one line."""
        start = f"{self.gate}: {self.kernel} for {self.target}: {self.figure}"
        if self.gate in ("no-code", "deadline") and self.kernel in self.figure:
            start = f"{self.gate}: {self.figure}"  # a compiler's error says where itself
        if self.item:
            return f"{start}; tracked by {self.item!r}"
        return f"{start}; {self.declaration}"


@attrs.frozen
class Named:
    """What a declaration may name.

    Attributes
    ----------
    backends
        Backends that are loaded.
    dialect
        That of the backend which was built for.
    members
        Members of all families of the design, in whatever dialect.
    unknown_targets
        Declared targets of the backend that its compiler does not know.
    """

    backends: Collection[str]
    dialect: str
    members: Collection[Member]
    unknown_targets: Collection[str] = ()


@attrs.frozen
class Subject:
    """What gates look at: a family built for one target.

    Attributes
    ----------
    compiler
        Name and version of the compiler.
    declared
        Of the family, over its design.
    members
        What became of each that was built.
    preparation
        What became of the weight preparation; None when there is none.
    is_whole
        Whether all members of the dialect were built.
    named
        What may be named where this was built; None: nobody knows, and nothing is said of it.
    """

    family: str
    backend: str
    target: str
    compiler: str
    declared: Declarations
    members: Mapping[str, Result]
    preparation: Built | XpuBuildError | None = None
    is_whole: bool = True
    named: Named | None = None

    @property
    def results(self) -> dict[str, Result]:
        """All that was built, by the name of the member."""
        if self.preparation is None:
            return dict(self.members)
        return {**self.members, PREPARATION: self.preparation}


def findings(subject: Subject) -> tuple[Finding, ...]:
    """Return what the gates find, tracked or not, and which declarations are stale."""
    found = [_tracked(subject, each) for each in _found(subject)]
    return (*found, *_stale(subject, found), *_never(subject))


def _found(subject: Subject) -> Iterator[Finding]:
    for member, result in subject.results.items():
        if isinstance(result, XpuBuildError):
            gate: Gate = "deadline" if isinstance(result, XpuDeadlineError) else "no-code"
            yield _finding(subject, gate, f"{subject.family}.{member}", member, str(result))
            continue
        kernels = [result] if isinstance(result, Built) else []
        for built in (*kernels, *result.staging):
            is_member = built is result and member != PREPARATION
            for gate, figure in _of_code(built, has_main_loop=is_member):
                yield _finding(subject, gate, built.kernel, member, figure)


def _of_code(built: Built, *, has_main_loop: bool) -> Iterator[tuple[Gate, str]]:
    """Yield gates and figures of a kernel that there is code of."""
    facts, manifest = built.manifest.footprint, built.manifest
    if facts.spill_bytes:
        yield "spill", f"{facts.spill_bytes} bytes of registers are spilled to memory"
    if manifest.launch_sites and manifest.max_threads is None:
        places = ", ".join(site.where for site in manifest.launch_sites if site.threads is None)
        yield "unbounded-launch", f"the block at {places} depends on the problem"
    if has_main_loop and facts.vector_instructions == 0:
        yield "scalar-loop", "its main loop has no vector instruction"


def _finding(subject: Subject, gate: Gate, kernel: str, member: str, figure: str) -> Finding:
    where = f"families.{subject.family}"
    members = f'members = ["{member}"]'
    if gate == "unbounded-launch":
        told = (
            "bound it with @occupancy(max_threads=…), or track it: "
            f'{where}.unbounded = [{{ item = "…", {members} }}]'
        )
    else:
        # An error of a compiler says itself how it is mended.
        mend = "" if gate in ("no-code", "deadline") else "mend it, "
        told = (
            f'{mend}or track it: {where}.unlowered = [{{ item = "…", backend = '
            f'"{subject.backend}", gate = "{gate}", targets = ["{subject.target}"], {members}, '
            f'compilers = ["{subject.compiler}"] }}]'
        )
    return Finding(
        gate, subject.family, kernel, member, subject.backend, subject.target, figure, told
    )


def _tracked(subject: Subject, finding: Finding) -> Finding:
    """Return a finding with the item that tracks it, where one does."""
    for each in _speaking(subject):
        if _covers(each, finding):
            return attrs.evolve(finding, item=each.item, declaration=_shown(each))
    return finding


def _speaking(subject: Subject) -> tuple[Unlowered | Unbounded, ...]:
    """Return the declarations that speak of a subject's backend and target."""
    unlowered = (
        each
        for each in subject.declared.unlowered
        if each.speaks_of(subject.backend, subject.target, subject.compiler)
    )
    return (*unlowered, *subject.declared.unbounded)


def _covers(declaration: Unlowered | Unbounded, finding: Finding) -> bool:
    gate = "unbounded-launch" if isinstance(declaration, Unbounded) else declaration.gate
    names = declaration.members
    return gate == finding.gate and (not names or finding.member in names)


def _stale(subject: Subject, found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the declarations whose cause is gone, for each member that they name."""
    for each in _speaking(subject):
        caught = {finding.member for finding in found if _covers(each, finding)}
        for member in _judged(subject, each):
            if caught if not member else member in caught:
                continue
            figure = f"{_shown(each)} tracks {_cause(each)}, and there is none"
            yield _stale_one(subject, member, figure, "take it out of the declaration")


def _never(subject: Subject) -> Iterator[Finding]:
    """Yield the declarations that name what is not there: they would never become stale."""
    declared: tuple[Unlowered | Unbounded, ...] = subject.declared.unlowered
    for each in (*declared, *subject.declared.unbounded):
        for figure in _unknown(subject, each):
            said = f"{_shown(each)} names {figure}"
            yield _stale_one(subject, "", said, "correct the name, or take it out")


def _unknown(subject: Subject, declaration: Unlowered | Unbounded) -> Iterator[str]:
    """Say what a declaration names and nobody knows."""
    named = subject.named
    if named is None:
        return
    dialect = None
    if isinstance(declaration, Unlowered):
        if declaration.backend not in named.backends:
            said = nearest(declaration.backend, named.backends)
            # Any other name may be that of a backend which is not installed here.
            if said.startswith("did you mean"):
                yield f"the backend {declaration.backend!r}, which no loaded plugin brings; {said}"
            return
        if not declaration.is_made_by(subject.backend, subject.compiler):
            return
        dialect = named.dialect
        for target in declaration.targets:
            if target in named.unknown_targets:
                yield f"the target {target!r}, which {subject.compiler} does not know"
    allowed = {it.name for it in named.members if dialect is None or it.speaks(dialect)}
    if dialect is None or subject.preparation is not None:
        allowed.add(PREPARATION)  # an unbounded launch may be that of another backend
    for member in declaration.members:
        if member not in allowed:
            where = "" if dialect is None else f" in dialect {dialect!r}"
            yield f"the member {member!r}, which is not there{where}; {nearest(member, allowed)}"


def _stale_one(subject: Subject, member: str, figure: str, mend: str) -> Finding:
    kernel = f"{subject.family}.{member}" if member else subject.family
    where = (subject.family, kernel, member, subject.backend, subject.target)
    return Finding("stale", *where, figure, mend)


def _judged(subject: Subject, declaration: Unlowered | Unbounded) -> Collection[str]:
    """Return the members that a declaration can be held against; "" for all of them together.

    Of what was not built nothing is known.
    """
    results = subject.results
    if isinstance(declaration, Unbounded):
        # Where there are no blocks, or no code, nothing can be said of launches.
        results = {name: each for name, each in results.items() if _has_blocks(each)}
    if declaration.members:
        return [name for name in declaration.members if name in results]
    return [""] if results and subject.is_whole else []


def _has_blocks(result: Result) -> bool:
    if isinstance(result, XpuBuildError):
        return False
    kernels = [result] if isinstance(result, Built) else []
    return any(built.manifest.launch_sites for built in (*kernels, *result.staging))


def _cause(declaration: Unlowered | Unbounded) -> str:
    gate = "unbounded-launch" if isinstance(declaration, Unbounded) else declaration.gate
    return {
        "spill": "a spill",
        "no-code": "missing code",
        "deadline": "a passed deadline",
        "scalar-loop": "a scalar main loop",
        "unbounded-launch": "an unbounded launch",
    }[gate]


def _shown(declaration: Unlowered | Unbounded) -> str:
    kind = "unbounded" if isinstance(declaration, Unbounded) else "unlowered"
    return f"{kind} {declaration.item!r}"
