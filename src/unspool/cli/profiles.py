"""`unspool profiles`: which there are, what they set and why, and whether a file is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspool.cli.json_out import write_json
from unspool.cli.param_words import shown
from unspool.cli.table import print_table
from unspool.errors import BadRequest

if TYPE_CHECKING:
    from unspool.profiles import Profile

app = typer.Typer(help="List, show and check decoding profiles.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """Every profile by name: those of unspool, and your own, which win where the name is the same."""
    from unspool.profiles import all_profiles, user_folder
    from unspool.profiles.lookup import SHIPPED
    from unspool.profiles.reader import read_profile

    rows: list[dict[str, Any]] = []
    for path in all_profiles():
        row: dict[str, Any] = {"name": path.stem, "source": "shipped" if path.parent == SHIPPED else "user"}
        try:
            profile = read_profile(path, is_shipped=path.parent == SHIPPED)
        except BadRequest as error:  # one bad file does not hide the others
            row |= {"ready": False, "description": f"cannot be read: {error}"}
        else:
            row |= {"ready": not _unmet(profile), "description": profile.description}
        rows.append(row | {"path": str(path)})
    if as_json:
        write_json(rows, indent=2)
        return
    table = [("NAME", "FROM", "READY", "WHAT FOR")]
    for row in rows:
        table.append((row["name"], row["source"], "yes" if row["ready"] else "no", row["description"]))
    print_table(table)
    print(f"\nYour own go into {user_folder()}")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A profile's name, or its file.")],
    as_json: AsJson = False,
) -> None:
    """What a profile sets, the reason for each value, and the parameters it comes to."""
    from unspool.profiles import load_profile
    from unspool.profiles.effective import params_of
    from unspool.profiles.needs import KINDS, described, listed

    profile = load_profile(name)
    params = params_of(profile)
    if as_json:
        write_json(_facts(profile), indent=2)
        return
    print(f"{profile.name}: {profile.description}")
    print("" if profile.is_shipped else f"{profile.path}\n")
    table = [("PARAMETER", "VALUE", "REASON")]
    for parameter, setting in profile.settings.items():
        table.append((parameter, shown(getattr(params, parameter)), setting.reason))
    for need in profile.needs:
        kind = KINDS[need.kind]
        table.append((f"needs {kind.label}", "", need.reason))
        table += [(f"  {key}", shown(held.value), held.reason) for key, held in need.settings.items()]
    print_table(table)
    missing = [need for need in profile.needs if not KINDS[need.kind].is_there]
    for need in missing:
        then = "it samples instead" if need.otherwise else "so decoding with this profile is refused"
        if commands := KINDS[need.kind].commands:
            does = "does" if len(commands) == 1 else "do"
            print(
                f"\n{described(need)}: {listed(commands, f' --profile {name}')} {does} it"
                + ("; elsewhere it samples instead" if need.otherwise else "")
            )
        else:
            print(f"\nunspool does not have {described(need)} yet; {then}")
    print(f"\n{params!r}")  # the same in Python


@app.command("check")
def check(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME|FILE", help="Profiles to check. [default: all, your own first]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find what is wrong in profiles: names, values, ranges, contradictions, missing reasons."""
    from unspool.profiles import all_profiles, find
    from unspool.profiles.check import check_profile

    paths = [find(given) for given in files] if files else all_profiles()
    findings = {path: check_profile(path) for path in paths}
    if as_json:
        rows = [
            {"path": str(path), "severity": f.severity, "key": f.key, "text": f.text}
            for path, found in findings.items()
            for f in found
        ]
        write_json(rows, indent=2)
    else:
        for path, found in findings.items():
            for line in [str(finding) for finding in found] or ["ok"]:
                print(f"{path}: {line}")
    if any(f.severity == "error" for found in findings.values() for f in found):
        raise typer.Exit(BadRequest.exit_code)


def _unmet(profile: Profile) -> bool:
    from unspool.profiles.needs import nowhere

    return bool(nowhere(profile))


def _facts(profile: Profile) -> dict[str, Any]:
    from unspool.profiles.effective import params_of
    from unspool.profiles.needs import KINDS

    return {
        "name": profile.name,
        "description": profile.description,
        "path": str(profile.path),
        "shipped": profile.is_shipped,
        "ready": not _unmet(profile),
        "settings": {
            name: {"value": held.value, "reason": held.reason} for name, held in profile.settings.items()
        },
        "needs": [
            {
                "kind": need.kind,
                "reason": need.reason,
                "otherwise": need.otherwise or None,
                "available": KINDS[need.kind].is_there,
                "settings": {
                    name: {"value": held.value, "reason": held.reason} for name, held in need.settings.items()
                },
            }
            for need in profile.needs
        ],
        "params": params_of(profile).to_dict(),
    }
