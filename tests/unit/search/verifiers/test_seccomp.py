"""The filter of system calls, run on a small machine of the tests' own."""

from __future__ import annotations

import errno

import pytest

from unspool.search.verifiers.sandbox import seccomp
from unspool.search.verifiers.sandbox.seccomp import AUDIT_ARCHS, REFUSED, program

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
PID = 42


def decide(machine, number, argument=0, arch=None, second=0):
    """What the filter says of a call: classic BPF, the few instructions of it that are used."""
    data = {0: number, 4: AUDIT_ARCHS[machine] if arch is None else arch, 16: argument, 24: second}
    steps, at, a = program(machine, PID), 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x20:
            a = data[operand]
        elif code == 0x06:
            return operand
        else:
            holds = {0x15: a == operand, 0x35: a >= operand, 0x45: bool(a & operand)}[code]
            at += if_true if holds else if_false


def refused_with(number):
    return 0x00050000 | number


@pytest.mark.parametrize("machine", AUDIT_ARCHS)
def test_calls_that_are_named_are_refused_and_others_pass(machine):
    which = list(AUDIT_ARCHS).index(machine)
    refused = {numbers[which] for numbers in REFUSED.values()} - {-1}
    special = {seccomp.CLONE[which], seccomp.CLONE3[which]} | {n[which] for n in seccomp.OWN_ONLY.values()}
    for number in range(460):
        if number in refused:
            assert decide(machine, number) == refused_with(errno.EPERM)
        elif number not in special:
            assert decide(machine, number) == ALLOWED


@pytest.mark.parametrize("machine", AUDIT_ARCHS)
def test_threads_may_be_made_and_processes_not(machine):
    which = list(AUDIT_ARCHS).index(machine)
    assert decide(machine, seccomp.CLONE[which], 0x00010F00) == ALLOWED
    assert decide(machine, seccomp.CLONE[which], 17) == refused_with(errno.EPERM)
    assert decide(machine, seccomp.CLONE3[which]) == refused_with(errno.ENOSYS)


@pytest.mark.parametrize("machine", AUDIT_ARCHS)
@pytest.mark.parametrize("name", seccomp.OWN_ONLY)
def test_a_process_may_do_to_itself_what_it_may_not_to_others(machine, name):
    number = seccomp.OWN_ONLY[name][list(AUDIT_ARCHS).index(machine)]
    assert decide(machine, number, PID) == ALLOWED
    assert decide(machine, number, 1) == refused_with(errno.EPERM)
    assert decide(machine, number, 0) == (ALLOWED if name == "prlimit64" else refused_with(errno.EPERM))


@pytest.mark.parametrize("machine", AUDIT_ARCHS)
@pytest.mark.parametrize("name", seccomp.ARGUMENTS)
def test_some_calls_are_refused_by_an_argument(machine, name):
    numbers, index, values = seccomp.ARGUMENTS[name]
    for value in [*values, 2, 99]:
        given = {"second": value} if index else {"argument": value}
        verdict = decide(machine, numbers[list(AUDIT_ARCHS).index(machine)], **given)
        assert verdict == (refused_with(errno.EPERM) if value in values else ALLOWED)


def test_calls_of_another_kind_end_the_process():
    assert decide("x86_64", 1, arch=0x40000003) == KILLED
    assert decide("x86_64", 0x40000000 + 41) == refused_with(errno.EPERM)


def test_no_call_is_named_twice():
    for which in range(2):
        numbers = [each[which] for each in REFUSED.values() if each[which] != -1]
        assert len(numbers) == len(set(numbers))
