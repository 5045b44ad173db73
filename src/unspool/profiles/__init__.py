"""Profiles: decoding parameters for a purpose, as TOML files that give a reason for every value."""

from unspool.profiles.effective import Effective, effective
from unspool.profiles.lookup import all_profiles, find, load_profile, user_folder
from unspool.profiles.profile import Need, Profile, Setting

__all__ = [
    "Effective",
    "Need",
    "Profile",
    "Setting",
    "all_profiles",
    "effective",
    "find",
    "load_profile",
    "user_folder",
]
