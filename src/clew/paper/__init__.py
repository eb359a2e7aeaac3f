"""The paper's runs: their configs, by its text and by its published code."""
