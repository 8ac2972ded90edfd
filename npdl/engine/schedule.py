class Group:
    def __init__(self, operations):
        self.operations, self.local = operations, set()


def schedule(operations):
    return [Group([op]) for op in operations]
