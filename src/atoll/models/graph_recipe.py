"""The recipe of the graph's classifier: every number that was tuned, in one frozen object.

Vary it with `dataclasses.replace`:

    recipe = replace(RECIPE, prior=replace(RECIPE.prior, smoothness=2.0))

The numbers were tuned on label draws of their own; `benchmarks/results/graph_gp.md` measures
them on others.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PriorRecipe:
    """The functions before any label, f_c = v(x)ᵀ a_c with a spectral weight s(λ) = (λ + κ)^−ν.

    Attributes
    ----------
    least_modes, modes_per_class : int
        Modes of the graph: so many per class, and no fewer than the least.
    smoothness : float
        ν.
    scale_share : float
        κ in units of an eigenvalue: the K-th, and the l-th for the part that follows l labels.
    fine_weight, most_fine_weight : float
        Weight of that part, at first and at most.
    fine_labels : int
        Labels beyond which that weight grows with them.
    constant_variance : float
        ρ, the variance of the constant in each function.
    new_row_neighbours : int
        Rows of the graph whose functions a new row averages.
    """

    least_modes: int = 64
    modes_per_class: int = 6
    smoothness: float = 3.0
    scale_share: float = 0.1
    fine_weight: float = 0.03
    most_fine_weight: float = 0.3
    fine_labels: int = 100
    constant_variance: float = 0.3
    new_row_neighbours: int = 10

    def n_modes(self, n_classes: int) -> int:
        """Return the number of modes for K classes."""
        return max(self.least_modes, self.modes_per_class * n_classes)


@dataclass(frozen=True)
class LabellingRecipe:
    """The weight of a draw, by the labels that it gives to all rows of the graph.

    Attributes
    ----------
    balance_strength : float
        Of the shares of the classes, which are to be like those of the labels.
    cut_strength : float
        Of the edges between classes, in units of the mean degree.
    least_effective_share : float
        Weights are flattened until the draws are worth at least this share of their number.
    unseen_count, few_random_labels : float
        Where labels were chosen, or a class has none: added to each class's random labels, and the
        number of these by which shares are trusted half.
    known_strength : float
        Where the shares are known: rows, labelled at random, that would tell as much of them.
    """

    balance_strength: float = 3.0
    cut_strength: float = 0.3
    least_effective_share: float = 0.05
    unseen_count: float = 0.5
    few_random_labels: float = 2.0
    known_strength: float = 100.0


@dataclass(frozen=True)
class ChoiceRecipe:
    """Which likelihood takes which labels.

    Attributes
    ----------
    most_labels : int
        Beyond, a random part of the labels stands for all.
    argmax_labels : int
        Labels per class at which the argmax gives way to the softmax: more can tell how noisy they
        are.
    many_constraints, least_argmax_labels : int
        The argmax gives way earlier where labels times other classes exceed the first number, since
        its draws are slow there, but not before there are as many labels per class as the second.
    band : pair of float
        The change-over, in units of these labels per class: below the first number the argmax
        stands alone and above the second the softmax; between them both are found, and averaged
        with shares that go from one to the other.
    least_chains : int
        Chains of either, where both are found.
    most_coefficients : int
        Coefficients that the softmax takes at most, since its curvature is a dense matrix of them:
        where classes are many it has the smoothest modes alone. Where these would be fewer than the
        classes the argmax stands alone, or, if the softmax was asked for, a probit is found by
        variational Bayes.
    """

    most_labels: int = 4000
    argmax_labels: int = 10
    many_constraints: int = 100
    least_argmax_labels: int = 5
    band: tuple[float, float] = (0.8, 1.4)
    least_chains: int = 16
    most_coefficients: int = 2000

    def softmax_share(self, n_labels: float, n_classes: int) -> float:
        """Return the share of the softmax: 0 for few labels per class, 1 for many.

        Examples
        --------
        >>> [round(RECIPE.choice.softmax_share(2 * n, 2), 2) for n in (8, 11, 14)]
        [0.0, 0.5, 1.0]
        """
        fast = self.many_constraints / (n_classes * (n_classes - 1))
        gives_way = min(max(fast, self.least_argmax_labels), self.argmax_labels)
        first, last = self.band
        place = n_labels / n_classes / gives_way
        return min(max((place - first) / (last - first), 0.0), 1.0)

    def most_features(self, n_classes: int) -> int:
        """Return how many features the softmax takes at most.

        Examples
        --------
        >>> RECIPE.choice.most_features(2), RECIPE.choice.most_features(40)
        (1000, 50)
        """
        return self.most_coefficients // n_classes

    def has_room(self, n_features: int, n_classes: int) -> bool:
        """Return whether the softmax takes all features, or at least as many as there are classes.

        Examples
        --------
        >>> RECIPE.choice.has_room(160, 40), RECIPE.choice.has_room(240, 60)
        (True, False)
        """
        return self.most_features(n_classes) >= min(n_features, n_classes + 1)


def has_settled(memory: float, limit: float) -> bool:
    """Return whether chains that remember so much of half of the way have left their start.

    What is left of half of the way after the other half is left twice over of the start.

    Examples
    --------
    >>> has_settled(0.5, 0.3), has_settled(0.6, 0.3)
    (True, False)
    """
    return max(memory, 0.0) ** 2 < limit


@dataclass(frozen=True)
class ArgmaxRecipe:
    """Chains inside the cone that the labels leave.

    Attributes
    ----------
    nugget : float
        Variance of each label's own part: it may disagree with its nearest rows.
    first_flights : int
        Of every chain until the first look: doubled as long as the chains remember where they were
        half-way.
    most_walls, most_walls_of_two : int
        Labels times other classes beyond which a sweep is not a flight of all functions at once but
        a turn of each class's. Two classes have one function, which turns as a whole: with many
        labels that contradict each other its turns are quicker than its flights.
    first_sweeps, most_sweeps : int
        The same as the first flights for such turns, and the most of either.
    patience : int
        So many times as many sweeps, where by then they remember so much that their start may
        still tell (`has_settled`).
    memory_limit : float
        Correlation of the chains with themselves half-way below which they have forgotten it.
    most_values : int
        Of functions at labelled rows in all chains together: where labels and classes are many,
        fewer chains stand for several draws each.
    least_chains : int
        However many they are.
    """

    nugget: float = 1e-3
    first_flights: int = 2
    most_walls: int = 2**11
    most_walls_of_two: int = 2**7
    first_sweeps: int = 16
    most_sweeps: int = 512
    patience: int = 4
    memory_limit: float = 0.3
    most_values: int = 2**21
    least_chains: int = 64

    def flies(self, n_labels: int, n_classes: int) -> bool:
        """Return whether a sweep is a flight of all functions at once.

        Examples
        --------
        >>> RECIPE.argmax.flies(80, 10), RECIPE.argmax.flies(300, 100), RECIPE.argmax.flies(200, 2)
        (True, False, False)
        """
        most = self.most_walls_of_two if n_classes == 2 else self.most_walls
        return n_labels * (n_classes - 1) <= most

    def is_enough(self, memory: float, n_sweeps: int) -> bool:
        """Return whether chains that remember so much need go no further."""
        settled = n_sweeps >= self.most_sweeps and has_settled(memory, self.memory_limit)
        longest = self.patience * self.most_sweeps
        return memory < self.memory_limit or settled or n_sweeps >= longest

    def n_chains(self, n_draws: int, n_values: int) -> int:
        """Return how many chains make n_draws draws, with so many values of functions each."""
        return min(n_draws, max(self.least_chains, self.most_values // n_values))


@dataclass(frozen=True)
class SoftmaxRecipe:
    """Chains of Hamiltonian Monte Carlo under a softmax of unknown steepness e^{u/2}.

    Attributes
    ----------
    amplitude_centre, amplitude_spread : float
        Mean and standard deviation of u.
    amplitudes : tuple of float
        Values of u at which the evidence is looked at.
    negligible : float
        Nats below the highest evidence at which no higher u is looked at.
    warmup_steps, first_steps, most_steps : int
        Of every chain; the steps after the warm-up are doubled as long as the chains remember where
        they were half-way.
    first_step_size : float
        Before it is adapted.
    leapfrog_steps : pair of int
        Within each step, drawn at random: from the first number to one below the second.
    target_acceptance : float
        That the step size is adapted to.
    memory_limit : float
        Correlation of the chains with themselves half-way below which they have forgotten it.
    votes_per_draw : int
        Draws of the argmax that one draw is worth, since it gives probabilities and not a vote.
    """

    amplitude_centre: float = 5.0
    amplitude_spread: float = 2.0
    amplitudes: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0)
    negligible: float = 4.0
    warmup_steps: int = 20
    first_steps: int = 20
    most_steps: int = 320
    first_step_size: float = 0.3
    leapfrog_steps: tuple[int, int] = (4, 9)
    target_acceptance: float = 0.8
    memory_limit: float = 0.3
    votes_per_draw: int = 4


@dataclass(frozen=True)
class ProbitRecipe:
    """The probit of very many labels: its log variance in units of its noise.

    Attributes
    ----------
    log_variance_centre, log_variance_spread : float
        Mean and standard deviation of its prior.
    """

    log_variance_centre: float = 4.0
    log_variance_spread: float = 2.0


@dataclass(frozen=True)
class LeftOutRecipe:
    """How far the graph is believed, by labels left out of a regression on its functions.

    Attributes
    ----------
    amplitude, sureness : float
        Variance of the functions in units of the regression's noise, and what its means are
        multiplied by: about as sure as draws without label noise are.
    full : float
        Belief from which on the graph is believed in full.
    """

    amplitude: float = 4.0
    sureness: float = 3.0
    full: float = 0.98


@dataclass(frozen=True)
class Recipe:
    """Every tuned number of the graph's classifier, in the order of their use.

    Examples
    --------
    >>> from dataclasses import replace
    >>> smoother = replace(RECIPE, prior=replace(RECIPE.prior, smoothness=4.0))
    >>> smoother.prior.smoothness, smoother.prior.constant_variance
    (4.0, 0.3)
    """

    prior: PriorRecipe = field(default_factory=PriorRecipe)
    choice: ChoiceRecipe = field(default_factory=ChoiceRecipe)
    argmax: ArgmaxRecipe = field(default_factory=ArgmaxRecipe)
    softmax: SoftmaxRecipe = field(default_factory=SoftmaxRecipe)
    probit: ProbitRecipe = field(default_factory=ProbitRecipe)
    labellings: LabellingRecipe = field(default_factory=LabellingRecipe)
    left_out: LeftOutRecipe = field(default_factory=LeftOutRecipe)


RECIPE = Recipe()
"""The tuned one."""
