"""Nested structures with distributions in them, for backends without pytrees."""

import dataclasses

import keras

_classes = {}


@dataclasses.dataclass
class _Node:
    """An instance of a registered class, with marks in the place of its tensors."""

    cls: type
    aux: object
    children: object


def register(cls, flatten, unflatten):
    """Registers a class as `jax.tree_util.register_pytree_node` does."""
    _classes[cls] = (flatten, unflatten)


def flatten(tree):
    """Returns the tensors of a structure, a list, and the structure without them."""
    leaves = []

    def visit(item):
        if type(item) not in _classes:
            leaves.append(item)
            return None
        children, aux = _classes[type(item)][0](item)
        return _Node(type(item), aux, keras.tree.map_structure(visit, children))

    structure = keras.tree.map_structure(visit, tree)
    return leaves, structure


def unflatten(structure, leaves):
    """Returns the structure with these tensors in it."""
    leaves = iter(leaves)

    def build(item):
        if not isinstance(item, _Node):
            return next(leaves)
        children = keras.tree.map_structure(build, item.children)
        return _classes[item.cls][1](item.aux, children)

    return keras.tree.map_structure(build, structure)
