"""It brings a backend that another plugin brings, and a design that must not count then."""

from xpu.spec import Availability, Backend, hookimpl


class Twin(Backend):
    """A backend of a name that is taken."""

    name = "cpu"
    dialect = "c"

    def availability(self):
        return Availability(True)

    def compiler(self):
        raise AssertionError("nobody may ask")

    def devices(self):
        raise AssertionError("nobody may ask")

    def open(self, index=0):
        raise AssertionError("nobody may ask")


class Beside(Twin):
    """A backend whose name is free, by a plugin that may bring nothing."""

    name = "beside"


@hookimpl
def xpu_backends():
    return [Twin(), Beside()]
