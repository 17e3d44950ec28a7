"""`ragstone migrate`: an evaluation of ragas, DeepEval or promptfoo as files of Ragstone. Nothing of it is executed."""
