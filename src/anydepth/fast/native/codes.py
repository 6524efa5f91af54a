"""What the kernels' tables mean: operations, their columns, and the numbers that describe a run. Plain data."""

from enum import IntEnum


class Op(IntEnum):
    """Operations on registers; a register is one value of the traced unit, for a block of rows."""

    LINEAR = 0
    RELU = 1
    TANH = 2
    SIGMOID = 3
    GELU = 4
    GELU_TANH = 5
    SILU = 6
    SOFTPLUS = 7
    SIN = 8
    LEAKY = 9
    SUM = 10
    """a x + b y + c, numbers a, b, c; y may be missing."""
    PRODUCT = 11
    TIMES_ROW = 12
    """x times a vector that is the same for all rows."""
    PLUS_ROW = 13
    """a x + b v, v a vector."""
    COPY = 14
    """Some columns of x, to some columns of the result."""
    NORM = 15
    """x less its mean over the columns, divided by its deviation; number: what is added to the variance."""


FROM_RESULT = frozenset({Op.RELU, Op.TANH, Op.SIGMOID, Op.LEAKY})
"""Activations whose gradient can be worked out from their result, so that they may be done in place."""


class Col(IntEnum):
    """Columns of the table of operations."""

    CODE = 0
    TO = 1
    """Where the result is in a record, in columns; so with X and Y."""
    X = 2
    Y = 3
    TO_WIDTH = 4
    """Padded; so with X_WIDTH."""
    X_WIDTH = 5
    OUT = 6
    """Numbers per row of the result that count; of a copy, how many columns."""
    IN = 7
    WEIGHT = 8
    """Slots of theta, or -1."""
    BIAS = 9
    ADD_X = 10
    """Whether the gradient of x is added to what is there, or the first to be written; so with ADD_Y."""
    ADD_Y = 11
    TO_COLUMN = 12
    X_COLUMN = 13
    COUNT = 14


class Slot(IntEnum):
    """Columns of the table of slots: tensors of theta, by distinct rows."""

    FORWARD = 0
    """Where its packed rows begin, and how far apart they are; for forward, backward and gradients."""
    FORWARD_STEP = 1
    BACK = 2
    BACK_STEP = 3
    GRADIENT = 4
    GRADIENT_STEP = 5
    OUT = 6
    """Rows of the matrix; 1 for a vector."""
    IN = 7
    ROWS = 8
    """How many distinct instants there are."""
    IS_WANTED = 9
    """Whether its gradient is needed."""
    FLAT = 10
    """Where its gradient begins among all gradients of one net, without padding."""
    COUNT = 11


class Keep(IntEnum):
    """What a forward pass keeps for the backward pass."""

    NOTHING = 0
    RECORDS = 1
    """All registers of every evaluation."""
    STATES = 2
    """The state before every step; the registers are worked out again."""


class Dim(IntEnum):
    """Numbers that describe a run."""

    ROWS = 0
    WIDTH = 1
    PADDED = 2
    GROUPS = 3
    PER_GROUP = 4
    BLOCK = 5
    STAGES = 6
    STEPS = 7
    RECORD = 8
    """Columns of all registers together."""
    RESULT = 9
    """Where the slope is in a record."""
    THETA = 10
    """Length of the packed theta of one net; so with BACK_THETA and GRADIENT."""
    KEPT = 11
    """What is kept for a backward pass; see `Keep`."""
    HAS_FIRST = 12
    """The first slope is given; the last slope and the error are wanted."""
    BACK_THETA = 13
    GRADIENT = 14
    NETS = 15
    UNIT = 16
    """Widths are padded to multiples of this."""
    SCRATCH = 17
    """What a thread needs for itself."""
    COUNT = 18


class Job(IntEnum):
    """What a kernel is given: counters, sizes of tables, and addresses of arrays."""

    TASKS = 0
    NEXT = 1
    """The next task; taken by any thread."""
    THREAD = 2
    """How many threads have found a task."""
    OPS_COUNT = 3
    SLOTS_COUNT = 4
    SCRATCH_START = 5
    """Where in its array the threads' own memory begins."""
    DIMS = 6
    OPS = 7
    NUMBERS = 8
    SLOTS = 9
    INDEX = 10
    COEFFICIENTS = 11
    THETA = 12
    AHEAD = 13
    """Theta packed for forward, where the backward pass needs that too."""
    IN = 14
    """The states given, or the gradients of those returned; so with the first slopes, or the gradients of the last."""
    IN_SLOPE = 15
    OUT = 16
    """The states returned, or the gradients of those given; so with the last slopes, or the gradients of the first."""
    OUT_SLOPE = 17
    ERROR = 18
    RECORDS = 19
    GRADS = 20
    SCRATCH = 21
    COUNT = 22
