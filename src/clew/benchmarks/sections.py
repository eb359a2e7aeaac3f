"""The parts of the pages that benchmarks write."""

from clew.benchmarks import cost_page, going_on, recipes, time_to_accuracy_page

SECTIONS = (cost_page.SECTION, time_to_accuracy_page.SECTION, recipes.SECTION, recipes.RIVAL_SECTION, going_on.SECTION)
