"""What a recurrent cell keeps from step to step of one sequence."""

import weakref


class Held:
    """Values that end with the call of a model, or the `trace` block, they belong to.

    Keyed by weak references to what Keras and `trace` keep for just as long: after an
    exception nothing is left, and threads do not see the values of each other.
    """

    def __init__(self):
        self._values = weakref.WeakKeyDictionary()

    def hold(self, scope, value):
        """Keeps a value while `scope` lives; nothing is kept where it is `None`."""
        if scope is not None:
            self._values[scope] = value

    def get(self, *scopes):
        """Returns the value of the first of the scopes that has one, or `None`."""
        for scope in scopes:
            if scope is not None and scope in self._values:
                return self._values[scope]
        return None

    def release(self, *scopes):
        """Forgets the values of scopes."""
        for scope in scopes:
            if scope is not None:
                self._values.pop(scope, None)
